"""WorkerMetrics of one worker process, in a registry of its own, and the port that exposes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from app.settings import Settings, StartupError

log = structlog.get_logger(__name__)

_CALLS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WORK = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0)
_READY = (15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
_READ_BY_ALERTS = ("OutcomeUnknown", "Unreachable", "CredentialsRejected")
"""Classes that exist at 0 from the first call: `rate` does not see the increase with which a series begins."""
_PORTS = 64
"The number of processes of one host that can find a port."


class WorkerMetrics:
    """Labels are names of gpulease: accounts, operations and error classes.

    They never contain text of a provider or tenant.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        place = ["provider", "account", "operation"]
        self._calls = self._histogram(
            "gpulease_provider_call_seconds",
            "Duration of one call to the provider interface, including failures; for a listing, of one page.",
            place,
            _CALLS,
        )
        self._errors = self._counter(
            "gpulease_provider_errors_total", "Failed calls by error class.", [*place, "class"]
        )
        self._ready = self._histogram(
            "gpulease_time_to_ready_seconds",
            "Time from a lease's creation to the first time its VM is ready.",
            ["provider", "market"],
            _READY,
        )
        self._steps = self._histogram(
            "gpulease_step_seconds", "Duration of one step of a lease, including provider calls.", ["step"], _WORK
        )
        self._failures = self._counter(
            "gpulease_step_failures_total",
            "Aborted lease steps, by reason: claim_lost, database or bug.",
            ["reason"],
        )
        for reason in ("claim_lost", "database", "bug"):
            self._failures.labels(reason)
        self._skips = self._counter(
            "gpulease_sequencer_skips_total",
            (
                "Passes of the sequencer that gave no numbers, because another transaction held the row of the "
                "installation. Some are normal with several workers."
            ),
            [],
        )
        self._jobs = self._histogram(
            "gpulease_job_seconds", "Duration of one run of a periodic job, including failed runs.", ["kind"], _WORK
        )
        self._job_failures = self._counter(
            "gpulease_job_failures_total",
            (
                "Failed runs of periodic jobs by error class. An account's job counts once for a failure common to "
                "its regions, and once for each region that fails alone."
            ),
            ["kind", "account", "class"],
        )

    def _histogram(self, name: str, meaning: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, meaning: str, labels: list[str]) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def called(self, provider: str, account: str, operation: str, seconds: float, error: str | None = None) -> None:
        """Records the end of a call. `error` is the name of its class."""
        self._calls.labels(provider, account, operation).observe(seconds)
        for read_by_alert in _READ_BY_ALERTS:
            self._errors.labels(provider, account, operation, read_by_alert)
        if error is not None:
            self._errors.labels(provider, account, operation, error).inc()

    def became_ready(self, provider: str, market: str, seconds: float) -> None:
        """Records that a lease became active for the first time."""
        self._ready.labels(provider, market).observe(seconds)

    @contextmanager
    def step(self, name: str, monotonic: Callable[[], float]) -> Iterator[None]:
        """Measures the duration of one step."""
        started = monotonic()
        try:
            yield
        finally:
            self._steps.labels(name).observe(monotonic() - started)

    def step_failed(self, reason: str) -> None:
        """`reason` is claim_lost, database or bug."""
        self._failures.labels(reason).inc()

    def sequencer_skipped(self) -> None:
        """Records a pass of the sequencer that found the row of the installation locked."""
        self._skips.inc()

    def job_done(self, kind: str, seconds: float) -> None:
        """Records the end of a job run, successful or not."""
        self._jobs.labels(kind).observe(seconds)

    def job_failed(self, kind: str, account: str | None, error: str) -> None:
        """`error` is the name of its class."""
        self._job_failures.labels(kind, account or "", error).inc()


def serve_metrics(settings: Settings, metrics: WorkerMetrics) -> int | None:
    """Exposes the metrics over HTTP on the first free port from GPULEASE_METRICS_PORT on. None where that is not set.

    Each process of a host uses a port of its own, lowest first. Raises StartupError when none is free.
    """
    first = settings.metrics_port
    if first is None:
        return None
    why: str | None = None
    for port in range(first, min(first + _PORTS, 65536)):
        try:
            start_http_server(port, settings.metrics_host, metrics.registry)
        except OSError as error:
            why = error.strerror
        else:
            log.info("metrics served", host=settings.metrics_host, port=port)
            return port
    msg = (
        f"no port from {first} on is free for metrics on {settings.metrics_host} "
        f"(GPULEASE_METRICS_PORT, GPULEASE_METRICS_HOST): {why}"
    )
    raise StartupError(msg)
