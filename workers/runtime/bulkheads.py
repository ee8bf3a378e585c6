"""Bulkheads: a cloud that hangs occupies a part of this process's threads, never all of them.

Every thread that moves a lease enters a bulkhead before it calls the lease's account. A thread never waits there: when
the bulkhead has no room, the lease rests and the thread processes another lease.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FULL_PAUSE = 0.25
_SLOW_PAUSE = 2.0


class CrowdedError(Exception):
    """The account has its maximum number of calls in progress, and nothing was sent. Retry after `pause` seconds.

    `slow`: some of those calls have waited long for an answer, so other leases should go to another account.
    """

    def __init__(self, *, slow: bool) -> None:
        super().__init__()
        self.slow = slow
        self.pause = _SLOW_PAUSE if slow else _FULL_PAUSE


@dataclass(slots=True)
class _Compartment:
    """Start times of the calls in progress, and since when calls to the account are slow (None: the last was not)."""

    began: dict[int, float] = field(default_factory=dict)
    slow_since: float | None = None


class Bulkheads:
    """Limits the calls of one process that may be in progress at an account.

    The limit is `most` while the account answers, and `few` while a call has waited for more than `slow_after` seconds.
    """

    def __init__(
        self, *, most: int, few: int, slow_after: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._few = few
        self._slow_after = slow_after
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._compartments: dict[str, _Compartment] = {}

    @contextmanager
    def inside(self, account: str) -> Iterator[None]:
        """Occupies a place for the time of one call. Raises CrowdedError at once when there is no room."""
        began = self._monotonic()
        compartment = self._enter(account, began)
        try:
            yield
        finally:
            with self._lock:
                del compartment.began[threading.get_ident()]
                if self._monotonic() - began <= self._slow_after:
                    compartment.slow_since = None

    def slow_for(self, account: str) -> float:
        """Seconds for which every call to the account has been slow. 0 when the last call that ended was not slow."""
        with self._lock:
            since = self._compartment(account).slow_since
            return 0.0 if since is None else self._monotonic() - since

    def _enter(self, account: str, now: float) -> _Compartment:
        with self._lock:
            compartment = self._compartment(account)
            oldest = min(compartment.began.values(), default=now)
            if compartment.slow_since is None and now - oldest > self._slow_after:
                compartment.slow_since = oldest
            slow = compartment.slow_since is not None
            if len(compartment.began) >= (self._few if slow else self._most):
                raise CrowdedError(slow=slow)
            compartment.began[threading.get_ident()] = now
            return compartment

    def _compartment(self, account: str) -> _Compartment:
        return self._compartments.setdefault(account, _Compartment())


def bulkheads(*, threads: int, call_timeout: float, monotonic: Callable[[], float] = time.monotonic) -> Bulkheads:
    """Bulkheads of a process with `threads` threads that move leases.

    An account gets half of the threads, and an eighth while it is slow. A call is slow after half of a request's
    time-out.
    """
    most, few = max(1, threads // 2), max(1, threads // 8)
    return Bulkheads(most=most, few=few, slow_after=call_timeout / 2, monotonic=monotonic)
