"""The time within which a create call may be sent.

A worker checks its claim, then prepares the call. If it is held up in between, its claim runs out and another worker
goes on. A create call that left after that could make a second VM where the first one has ended already. An adapter
therefore calls `require_open_window` as the last thing before it sends a create call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from workers.providers.errors import SendExpired

_window: ContextVar[tuple[float, Callable[[], float]] | None] = ContextVar("send_window", default=None)


@contextmanager
def send_window(closes_at: float, clock: Callable[[], float]) -> Iterator[None]:
    """Within the block create calls may be sent until `clock` shows `closes_at`."""
    token = _window.set((closes_at, clock))
    try:
        yield
    finally:
        _window.reset(token)


def require_open_window() -> None:
    """Raises SendExpired when the window of this thread is closed. Without a window, any time is right."""
    window = _window.get()
    if window is None:
        return
    closes_at, clock = window
    if clock() > closes_at:
        raise SendExpired("held up for so long before the call that nothing was sent", code="SendExpired")
