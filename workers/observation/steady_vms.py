"""VMs that run and have their addresses: a look a moment ago is good enough for them."""

import threading
import time
from collections.abc import Callable, Iterable

READ_AGAIN_SECONDS = 3.0


class SteadyVms:
    """What one process has read. Any thread may call any method."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read_at: dict[str, float] = {}

    def read(self, vm_ids: Iterable[str]) -> None:
        """These VMs were read just now, and were steady."""
        now = self._monotonic()
        with self._lock:
            self._read_at.update(dict.fromkeys(vm_ids, now))

    def recent(self) -> frozenset[str]:
        """The VMs that were read less than `READ_AGAIN_SECONDS` ago."""
        since = self._monotonic() - READ_AGAIN_SECONDS
        with self._lock:
            self._read_at = {vm_id: at for vm_id, at in self._read_at.items() if at > since}
            return frozenset(self._read_at)
