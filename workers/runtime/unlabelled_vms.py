"""VMs of launch batches without tags of their own, as one process has launched or seen them."""

import threading
import time
from collections.abc import Callable, Collection, Mapping

_KNOWN_AFTER = 1.0
"""A cloud may not know a new VM for a moment. EC2's documentation calls that eventual consistency."""
_SHOWN_AFTER = 30.0
"""A cloud may show the tags of a VM so many seconds after it accepted them."""
_LONGEST_WAIT = 300.0
"""The tags of a thousand VMs take 200 seconds at five calls a second. What is left, the inventory has seen too."""


class UnlabelledVms:
    """Notes for the thread that writes tags. A VM whose tags were written just now is not noted again."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._noted: dict[str, tuple[float, tuple[str, str]]] = {}
        self._labelled: dict[str, float] = {}

    def note(self, account: str, region: str, vm_ids: Collection[str]) -> None:
        """These VMs have no tags of their own."""
        now = self._monotonic()
        with self._lock:
            self._labelled = {vm_id: at for vm_id, at in self._labelled.items() if now - at < _SHOWN_AFTER}
            for vm_id in vm_ids:
                if vm_id not in self._labelled:
                    self._noted.setdefault(vm_id, (now, (account, region)))

    def waiting(self) -> Mapping[tuple[str, str], Collection[str]]:
        """Ids of VMs by account and region, the longest noted first.

        Leaves out VMs that were noted just now. A VM that was noted too long ago is forgotten.
        """
        now = self._monotonic()
        places: dict[tuple[str, str], list[str]] = {}
        with self._lock:
            self._noted = {vm_id: entry for vm_id, entry in self._noted.items() if now - entry[0] < _LONGEST_WAIT}
            for vm_id, (at, place) in self._noted.items():
                if now - at >= _KNOWN_AFTER:
                    places.setdefault(place, []).append(vm_id)
        return places

    def labelled(self, vm_ids: Collection[str]) -> None:
        """The cloud has accepted the tags of these VMs."""
        now = self._monotonic()
        with self._lock:
            for vm_id in vm_ids:
                self._noted.pop(vm_id, None)
                self._labelled[vm_id] = now
