"""Request rates of providers, shared by all workers through the database. Waiting is done by resting, not sleeping."""

from datetime import datetime

from app.db.fleet import provider_rate_limits
from workers.providers.errors import Throttled
from workers.providers.ports import Provider
from workers.providers.types import CallRate
from workers.runtime.database import WorkerDatabase

_FIRST_PAUSE = 1.0
_UNSTATED = CallRate(burst=1.0, per_second=1.0)


class ProviderRateLimiter:
    """Slots and tokens of each account, region and operation."""

    def __init__(self, database: WorkerDatabase, *, enabled: bool) -> None:
        self._database = database
        self._enabled = enabled

    @staticmethod
    def bucket(account: str, region: str, operation: str) -> str:
        return f"{account}/{region}/{operation}"

    def slot(self, provider: Provider, bucket: str) -> datetime | None:
        """Reserves the next slot, in order of asking; None: no rate is kept for this operation."""
        rate = self._rate(provider, bucket)
        if rate is None:
            return None
        row = self._database.first(provider_rate_limits.reserve(bucket, burst=rate.burst, per_second=rate.per_second))
        slot: datetime | None = row.slot_at if row is not None else None
        return slot

    def take(self, provider: Provider, bucket: str) -> bool:
        """Takes one token if there is one now."""
        rate = self._rate(provider, bucket)
        if rate is None:
            return True
        return (
            self._database.first(provider_rate_limits.take(bucket, burst=rate.burst, per_second=rate.per_second))
            is not None
        )

    def throttled(self, provider: Provider, bucket: str, error: Throttled) -> float:
        """The provider said no for now: slows this account's operation down. Answers the seconds to pause."""
        pause = error.retry_after or _FIRST_PAUSE
        rate = provider.limits.rates.get(bucket.rpartition("/")[2], _UNSTATED)
        if self._enabled:
            self._database.run(
                provider_rate_limits.slow_down(bucket, burst=rate.burst, per_second=rate.per_second, pause=pause)
            )
        return pause

    def _rate(self, provider: Provider, bucket: str) -> CallRate | None:
        return provider.limits.rates.get(bucket.rpartition("/")[2]) if self._enabled else None
