"""Metrics of one API process, in a registry of its own."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

_READ_BY_ALERTS = ("500", "503")
"""They exist at 0 from the first request of a route: `rate` does not see the increase with which a series begins."""


class ApiMetrics:
    """Creates families once and keeps their children, because looking up labels costs more than counting."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "gpulease_http_requests_total",
            "Requests by method, route template and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "gpulease_http_request_seconds",
            "Response time by method and route template.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._hints = Counter(
            "gpulease_hints_total",
            "Hints to workers by outcome: sent, spared in a burst or dropped.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("sent", "spared", "dropped"):
            self._hints.labels(outcome)
        self._redis = Gauge(
            "gpulease_redis_up",
            "1 when Redis answered this process the last time, within the last seconds, else 0.",
            registry=self.registry,
        )
        self._redis.set(1)
        self.redis_is_up = True
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._timers: dict[tuple[str, str], Histogram] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Records one response. `route` is a template or `unmatched`, which limits the number of labels."""
        counter = self._counters.get((method, route, status))
        if counter is None:
            counter = self._counters[method, route, status] = self._requests.labels(method, route, str(status))
            for error in _READ_BY_ALERTS:
                self._requests.labels(method, route, error)
        timer = self._timers.get((method, route))
        if timer is None:
            timer = self._timers[method, route] = self._seconds.labels(method, route)
        counter.inc()
        timer.observe(seconds)

    def hint(self, outcome: str, amount: int = 1) -> None:
        """`outcome` is sent, spared or dropped."""
        self._hints.labels(outcome).inc(amount)

    def redis_answered(self, *, up: bool) -> None:
        """Records the result of the latest exchange with Redis."""
        self.redis_is_up = up
        self._redis.set(up)

    def text(self) -> bytes:
        """The Prometheus exposition format."""
        return generate_latest(self.registry)
