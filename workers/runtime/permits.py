"""Permits: of the threads that move leases, a few work at a time. A thread that waits for a cloud returns its permit meanwhile.

Many threads at once would slow each other down: they share one interpreter lock. Each would also need a connection to
the database, and PostgreSQL plans every statement anew for each connection.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WORKING_THREADS = 4
"""Threads of a process that move leases at the same time. Those that wait for a cloud are not counted."""


class _Thread(threading.local):
    """`held`: what the thread has its permit of, None without one."""

    held: threading.Semaphore | None = None


_thread = _Thread()


class Permits:
    """`count` threads of a process work at a time."""

    def __init__(self, count: int = WORKING_THREADS) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Waits for a permit, which the thread holds inside the block. A thread that has one takes no second."""
        if _thread.held is not None:
            yield
            return
        with self._free:
            _thread.held = self._free
            try:
                yield
            finally:
                _thread.held = None


@contextmanager
def without_permit() -> Iterator[None]:
    """Around a wait for somebody else. A thread that holds a permit returns it, and waits for another one afterwards.

    The thread must not hold a lock that threads with permits wait for: none of them could then go on.
    """
    free = _thread.held
    if free is None:
        yield
        return
    _thread.held = None
    free.release()
    try:
        yield
    finally:
        free.acquire()
        _thread.held = free
