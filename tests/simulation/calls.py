"""How a call to the simulated cloud goes: answered, turned away, lost on either way, or carried out long after."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from tests.simulation.cloud import Cloud
from workers.providers.base import (
    CredentialsRejected,
    OutcomeUnknown,
    Refused,
    Throttled,
    TokenConflict,
    Unreachable,
)

T = TypeVar("T")


class Process(Protocol):
    """The process that calls."""

    call_timeout: float
    connect_timeout: float

    def point(self, where: str) -> None: ...

    def acting_since(self) -> float: ...


class Calls:
    """The calls of one process to one account."""

    def __init__(self, cloud: Cloud, process: Process) -> None:
        self._cloud = cloud
        self._process = process

    def _call(self, name: str, act: Callable[[], T], *, later: Callable[[], object] | None = None) -> T:
        """`later`: what happens when the request arrives long after the caller has given up; None: then nothing."""
        scheduler, weather = self._cloud.scheduler, self._cloud.weather
        chance = scheduler.random.random
        self._process.point(f"before {name}")
        self._turned_away()
        if later is not None and chance() < weather.late:
            self._arrive_later(later)
        elif chance() >= weather.lost_before:
            scheduler.pause(self._latency())
            result = act()
            scheduler.pause(self._latency())
            if chance() >= weather.lost_after:
                self._process.point(f"after {name}")
                return result
        scheduler.pause(self._process.call_timeout * chance())
        raise OutcomeUnknown("no answer", code="ReadTimeout")

    def _turned_away(self) -> None:
        """Answers that come before anything is done; of a server error nobody knows that."""
        cloud, weather, chance = self._cloud, self._cloud.weather, self._cloud.scheduler.random.random
        if cloud.refusing:
            raise CredentialsRejected("refused", code="AuthFailure")
        if cloud.away or chance() < weather.unreachable:
            cloud.scheduler.pause(self._process.connect_timeout)
            raise Unreachable("no connection", code="ConnectError")
        if chance() < weather.throttled:
            raise Throttled("slow down", code="Throttling", retry_after=2.0 if chance() < 0.5 else None)
        if chance() < weather.server_error:
            raise OutcomeUnknown("internal error", code="InternalError")

    def _latency(self) -> float:
        random, slow = self._cloud.scheduler.random, self._cloud.weather.slow
        return self._process.call_timeout / 2 * random.random() if random.random() < slow else random.uniform(0.01, 0.3)

    def _arrive_later(self, later: Callable[[], object]) -> None:
        cloud, random = self._cloud, self._cloud.scheduler.random
        most = cloud.settle - cloud.grace
        delay = most * random.random() ** 2 * 0.8
        if random.random() < cloud.weather.beyond:
            delay = cloud.settle * random.uniform(1, 4)

        def arrive() -> None:
            try:
                later()
            except (Refused, TokenConflict):
                return  # nobody waits for this answer

        cloud.scheduler.after(delay, arrive)
