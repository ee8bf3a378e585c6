"""What a VM costs for the time that it is billed: the one place where a price per hour becomes an amount.

`app.db.leases.billing` is the same rule for SQL. A test feeds both the same values.
"""

from datetime import datetime, timedelta
from decimal import Decimal

SECONDS_PER_HOUR = 3600
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = Decimal(SECONDS_PER_HOUR * 1_000_000)
_STORED = Decimal("0.000001")


def cost(price_per_hour: Decimal, duration: timedelta) -> Decimal:
    """USD, not rounded. `price_per_hour`: USD. A negative duration costs nothing."""
    return price_per_hour * (max(duration, timedelta(0)) // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def closed_cost(price_per_hour: Decimal, started_at: datetime | None, ended_at: datetime) -> Decimal:
    """USD of an attempt whose billing has ended, to a millionth, as it is stored. `started_at` None: it was never billed."""
    if started_at is None:
        return Decimal(0)
    return cost(price_per_hour, ended_at - started_at).quantize(_STORED)
