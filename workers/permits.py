"""Permits: of the threads that move leases, a few work at a time. A thread that waits for a cloud returns its permit meanwhile.

Many threads at once would slow each other down: they share one interpreter lock. Each would also need a connection to
the database, and PostgreSQL plans every statement anew for each connection.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WORKING_THREADS = 4
"""Threads of a process that move leases at the same time. Those that wait for a cloud are not counted."""

_thread = threading.local()


class Permits:
    """`count` threads of a process work at a time."""

    def __init__(self, count: int = WORKING_THREADS) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Waits for a permit, which the thread holds inside the block."""
        with self._free:
            _thread.permits = self._free
            try:
                yield
            finally:
                _thread.permits = None


@contextmanager
def without_permit() -> Iterator[None]:
    """Around a call that may take long. A thread that holds a permit returns it, and waits for another one afterwards."""
    free: threading.Semaphore | None = getattr(_thread, "permits", None)
    if free is None:
        yield
        return
    free.release()
    try:
        yield
    finally:
        free.acquire()
