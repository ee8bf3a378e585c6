"""What one worker process counts, in a registry of its own, and the port on which it tells that."""

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
_PORTS = 64
"""So many processes of one host find a port."""


class WorkerMetrics:
    """Labels are our own words: accounts, operations and classes of errors, never what a provider or a tenant says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        place = ["provider", "account", "operation"]
        self._calls = self._histogram(
            "gpulease_provider_call_seconds",
            "Time for one call of the provider interface to answer or fail; of a listing, for one page.",
            place,
            _CALLS,
        )
        self._errors = self._counter(
            "gpulease_provider_errors_total", "Failed calls by class of the error.", [*place, "class"]
        )
        self._ready = self._histogram(
            "gpulease_time_to_ready_seconds",
            "From a lease's creation to its VM being ready, the first time.",
            ["provider", "market"],
            _READY,
        )
        self._steps = self._histogram(
            "gpulease_step_seconds", "Time for one step of a lease, calls included.", ["step"], _WORK
        )
        self._failures = self._counter(
            "gpulease_step_failures_total",
            "Moves of a lease that broke off: claim_lost, database or bug.",
            ["reason"],
        )
        for reason in ("claim_lost", "database", "bug"):
            self._failures.labels(reason)
        self._jobs = self._histogram(
            "gpulease_job_seconds", "Time for one run of a periodic job, failed ones included.", ["kind"], _WORK
        )
        self._job_failures = self._counter(
            "gpulease_job_failures_total",
            "Failed runs of periodic jobs by class of the error; an account's job counts once for what its regions have in "
            "common, and once for each that fails alone.",
            ["kind", "account", "class"],
        )

    def _histogram(self, name: str, meaning: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, meaning: str, labels: list[str]) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def called(self, provider: str, account: str, operation: str, seconds: float, error: str | None = None) -> None:
        """A call has ended; `error` is the name of its class."""
        self._calls.labels(provider, account, operation).observe(seconds)
        if error is not None:
            self._errors.labels(provider, account, operation, error).inc()

    def became_ready(self, provider: str, market: str, seconds: float) -> None:
        """A lease became active for the first time."""
        self._ready.labels(provider, market).observe(seconds)

    @contextmanager
    def step(self, name: str, monotonic: Callable[[], float]) -> Iterator[None]:
        """For the time of one step."""
        started = monotonic()
        try:
            yield
        finally:
            self._steps.labels(name).observe(monotonic() - started)

    def step_failed(self, reason: str) -> None:
        """`reason` is claim_lost, database or bug."""
        self._failures.labels(reason).inc()

    def job_done(self, kind: str, seconds: float) -> None:
        """A run of a job has ended, well or not."""
        self._jobs.labels(kind).observe(seconds)

    def job_failed(self, kind: str, account: str | None, error: str) -> None:
        """`error` is the name of its class."""
        self._job_failures.labels(kind, account or "", error).inc()


def serve_metrics(settings: Settings, metrics: WorkerMetrics) -> int | None:
    """Tells them over HTTP on the first free port from GPULEASE_METRICS_PORT on; None where that is not set.

    Each process of a host has a port of its own, the lower ones first. Raises StartupError when none is free.
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
    msg = f"no port from {first} on is free for metrics on {settings.metrics_host} (GPULEASE_METRICS_PORT): {why}"
    raise StartupError(msg)
