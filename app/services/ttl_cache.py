"""What is read once for everybody who asks within a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TtlCache(Generic[T]):
    """An answer at most `seconds` old. Those who ask while it is read wait for that reading."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._reading = asyncio.Lock()
        self._known: tuple[float, T] | None = None
        self._times_forgotten = 0

    async def get(self) -> T:
        """Raises what the reading raises, which is not kept."""
        fresh = self._fresh()
        if fresh is None:
            async with self._reading:
                fresh = self._fresh()
                if fresh is None:
                    before = self._times_forgotten
                    fresh = (time.monotonic(), await self._read())
                    if before == self._times_forgotten:
                        self._known = fresh
        return fresh[1]

    def forget(self) -> None:
        """Who asks from now on gets a reading that begins now or later."""
        self._known = None
        self._times_forgotten += 1

    def _fresh(self) -> tuple[float, T] | None:
        known = self._known
        return known if known is not None and time.monotonic() - known[0] < self._seconds else None
