"""The time within which a create call may be sent.

A worker checks its claim, then prepares the call. If it is held up in between, its claim runs out and another worker
goes on. A create call that left after that could make a second VM where the first one has ended already.

An SDK may renew its credentials inside a call, which takes as long as the token endpoint does. An adapter therefore
checks the window twice. `create_call` checks it before the SDK begins. `require_open_window` checks it in the hook that
the SDK runs when a request has its credentials and leaves. The hook also sees a request that an SDK repeats by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from workers.providers.errors import SendExpired

_window: ContextVar[tuple[float, Callable[[], float]] | None] = ContextVar("send_window", default=None)
_creating: ContextVar[bool] = ContextVar("create_call", default=False)


@contextmanager
def send_window(closes_at: float, clock: Callable[[], float]) -> Iterator[None]:
    """Within the block create calls may be sent until `clock` shows `closes_at`."""
    token = _window.set((closes_at, clock))
    try:
        yield
    finally:
        _window.reset(token)


@contextmanager
def create_call() -> Iterator[None]:
    """Around the SDK's method that creates VMs, and nothing else: the window holds for each request that leaves inside.

    Raises SendExpired when the window is closed. A read that follows the call is outside, since it may come late.
    """
    token = _creating.set(True)
    try:
        require_open_window()
        yield
    finally:
        _creating.reset(token)


def require_open_window() -> None:
    """For the hook of an SDK, before a request leaves. Raises SendExpired for a create call after its window."""
    window = _window.get()
    if window is None or not _creating.get():
        return
    closes_at, clock = window
    if clock() > closes_at:
        raise SendExpired("held up for so long before the call that nothing was sent", code="SendExpired")
