"""Token buckets: how often an API may be called. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDING = 1e-6
"""Twenty twentieths make a whole token."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket that holds `burst` tokens and gains `per_second`."""

    burst: float
    per_second: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class Buckets:
    """Buckets by key, full at first use."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, ...], _Bucket] = {}

    def take(self, key: tuple[str, ...], rate: Rate, now: float, amount: int = 1) -> bool:
        """Take `amount` tokens; False, taking nothing, when there are fewer."""
        bucket = self._buckets.setdefault(key, _Bucket(rate.burst, now))
        gained = max(0.0, now - bucket.filled_at) * rate.per_second
        bucket.tokens = min(rate.burst, bucket.tokens + gained)
        bucket.filled_at = now
        if bucket.tokens < amount - ROUNDING:
            return False
        bucket.tokens -= amount
        return True

    def clear(self) -> None:
        """All buckets full."""
        self._buckets.clear()
