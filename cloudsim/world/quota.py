"""vCPU quotas per (provider, account, region, code) and what is used of them."""

from __future__ import annotations

from collections import Counter

from cloudsim.world.errors import QuotaExceeded

QuotaKey = tuple[str, str, str, str]
"""provider, account, region, quota code"""


class Quotas:
    """Limits that were set, over one default for all others; usage counts every VM that is not terminated."""

    def __init__(self) -> None:
        self.limits: dict[QuotaKey, int] = {}
        self.used: Counter[QuotaKey] = Counter()

    def limit(self, key: QuotaKey, default: int) -> int:
        """How many vCPUs are allowed."""
        return self.limits.get(key, default)

    def check(self, key: QuotaKey, requested: int, default: int) -> None:
        """Raises QuotaExceeded when `requested` more vCPUs do not fit."""
        limit, used = self.limit(key, default), self.used[key]
        if used + requested > limit:
            raise QuotaExceeded(key[3], limit, used, requested)
