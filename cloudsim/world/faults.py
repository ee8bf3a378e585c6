"""Faults put upon API operations, consumed call by call."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

ANY_OPERATION = "*"
BOOT = "boot"
"""Not an API call: a fault on it meets the boot of a VM (`error`, `hang`, `delay`)."""
TOKEN = "token"  # noqa: S105  no password
"""The endpoint that gives access tokens at Google and Azure, a service of its own. AWS has the operation AssumeRole."""


class FaultMode(StrEnum):
    """What happens to a call. `error`, `throttle` and `hang` keep the work from being done.

    `fail_after` concerns launches at Compute Engine: the VM is made, and its operation ends with the code of an error.
    It also concerns updates of VMs at Azure: the VM runs on and shows the failure until the next update succeeds.

    `incomplete` concerns listings of VM statuses at Azure: the answer lacks the power states.

    `partial` and `shuffle` concern launches of several VMs: only `count` of them start, or the answer lists them in
    another order. Other calls are done as usual.
    """

    ERROR = "error"
    THROTTLE = "throttle"
    DELAY = "delay"
    LOSE_REPLY = "lose_reply"
    HANG = "hang"
    PARTIAL = "partial"
    SHUFFLE = "shuffle"
    FAIL_AFTER = "fail_after"
    INCOMPLETE = "incomplete"


@dataclass(slots=True, kw_only=True)
class Fault:
    """Meets the next `times` matching calls (None: until cleared)."""

    id: int
    provider: str
    operation: str
    mode: FaultMode
    code: str | None = None
    times: int | None = None
    delay_seconds: float | None = None
    region: str | None = None
    probability: float = 1.0
    count: int = 1
    """VMs that start (PARTIAL)."""
    hits: int = 0

    def matches(self, provider: str, operation: str, region: str) -> bool:
        """The call is one this fault is meant for."""
        return (
            self.provider == provider
            and (self.operation == operation or (self.operation == ANY_OPERATION and operation not in {BOOT, TOKEN}))
            and self.region in (None, region)
            and self.times != 0
        )


class FaultBook:
    """Standing faults in the order they were put."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._faults: dict[int, Fault] = {}
        self._last_id = 0

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def next_id(self) -> int:
        """A number no fault had before."""
        self._last_id += 1
        return self._last_id

    def put(self, fault: Fault) -> None:
        """From now on `fault` stands."""
        self._faults[fault.id] = fault

    def restore(self, faults: Iterable[Fault]) -> None:
        """Take over stored faults."""
        self._faults = {fault.id: fault for fault in faults}
        self._last_id = max(self._faults, default=0)

    def clear(self, fault_id: int | None = None) -> bool:
        """Forget one fault or all; False when there is no such fault."""
        if fault_id is None:
            self._faults.clear()
            return True
        return self._faults.pop(fault_id, None) is not None

    def take(self, provider: str, operation: str, region: str) -> Fault | None:
        """The fault that meets this call, counted; None for a lucky one."""
        for fault in self._faults.values():
            if fault.matches(provider, operation, region) and self._rng.random() < fault.probability:
                return self._hit(fault)
        return None

    def _hit(self, fault: Fault) -> Fault:
        fault.hits += 1
        if fault.times is not None:
            fault.times -= 1
            if fault.times == 0:
                del self._faults[fault.id]
        return fault
