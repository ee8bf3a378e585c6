"""How a call to the simulated cloud goes: answered, turned away, lost on either way, or carried out long after."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from tests.simulation.cloud import Cloud
from workers.providers.errors import (
    CredentialsRejected,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Throttled,
    TokenConflict,
    Unreachable,
)

T = TypeVar("T")

_READS_LATE = 0.05


class Process(Protocol):
    """The process that calls."""

    call_timeout: float
    connect_timeout: float

    def point(self, where: str) -> None: ...

    def acting_since(self) -> float: ...

    def stall(self, where: str) -> None: ...


class Calls:
    """The calls of one process to one account."""

    def __init__(self, cloud: Cloud, process: Process) -> None:
        self._cloud = cloud
        self._process = process

    def _call(self, name: str, act: Callable[[], T], *, later: Callable[[], object] | None = None) -> T:
        """`later`: what happens when the request arrives long after the caller has given up; None: then nothing.

        Any answer may reach the caller so late that another process has its claim and acts first.
        """
        try:
            result = self._exchange(name, act, later)
        except ProviderError:
            self._answer_late(name, acts=later is not None)
            raise
        self._answer_late(name, acts=later is not None)
        return result

    def _answer_late(self, name: str, *, acts: bool) -> None:
        """Answers of calls that act are late more often: there are few of them."""
        scheduler, chance = self._cloud.scheduler, self._cloud.weather.answer_late
        if scheduler.random.random() < (chance if acts else chance * _READS_LATE):
            scheduler.count("call: answer after the claim has run out")
            self._process.stall(f"with the answer of {name}")

    def _exchange(self, name: str, act: Callable[[], T], later: Callable[[], object] | None) -> T:
        scheduler, weather = self._cloud.scheduler, self._cloud.weather
        chance = scheduler.random.random
        self._process.point(f"before {name}")
        self._turned_away()
        if later is not None and chance() < weather.late:
            scheduler.count("call: request arrives late")
            self._arrive_later(later)
        elif chance() >= weather.lost_before:
            scheduler.pause(self._latency())
            result = act()
            scheduler.pause(self._latency())
            if chance() >= weather.lost_after:
                self._process.point(f"after {name}")
                return result
            scheduler.count("call: answer lost")
        else:
            scheduler.count("call: request lost")
        scheduler.pause(self._process.call_timeout * chance())
        raise OutcomeUnknown("no answer", code="ReadTimeout")

    def _turned_away(self) -> None:
        """Answers that come before anything is done; of a server error nobody knows that."""
        cloud, weather, chance = self._cloud, self._cloud.weather, self._cloud.scheduler.random.random
        count = cloud.scheduler.count
        if cloud.refusing:
            count("call: credentials rejected")
            raise CredentialsRejected("refused", code="AuthFailure")
        if cloud.away or chance() < weather.unreachable:
            count("call: unreachable")
            cloud.scheduler.pause(self._process.connect_timeout)
            raise Unreachable("no connection", code="ConnectError")
        if chance() < weather.throttled:
            count("call: throttled")
            raise Throttled("slow down", code="Throttling", retry_after=2.0 if chance() < 0.5 else None)
        if chance() < weather.server_error:
            count("call: server error")
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
