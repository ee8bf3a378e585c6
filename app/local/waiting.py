"""Waiting for something outside this process: the one place of the local stack that sleeps."""

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], *, timeout: float, poll: float = 0.05) -> bool:
    """Ask `done` every `poll` seconds until it says yes; False when `timeout` seconds passed before that."""
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll)
    return True
