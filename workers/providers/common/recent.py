"""What an adapter has just made sure of, so that many launches at once ask for it once."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

_SECONDS = 60.0


class MinuteCache(Generic[T]):
    """Values by key, each for a minute. Any thread may call any method."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._known: dict[str, tuple[float, T]] = {}

    def get(self, key: str) -> T | None:
        """The value, or None when it was put more than a minute ago."""
        with self._lock:
            now = self._monotonic()
            self._known = {known_key: entry for known_key, entry in self._known.items() if entry[0] > now}
            entry = self._known.get(key)
        return None if entry is None else entry[1]

    def put(self, key: str, value: T) -> None:
        """Keeps a value for a minute from now."""
        with self._lock:
            self._known[key] = (self._monotonic() + _SECONDS, value)

    def forget(self, key: str) -> None:
        """The value is not true any more."""
        with self._lock:
            self._known.pop(key, None)
