"""What will be spent at the present rate."""

from datetime import datetime, timedelta
from decimal import Decimal

from app.domain.billing import SECONDS_PER_HOUR, cost

_LONGEST = timedelta(days=3650)
"""A budget that lasts longer is not exhausted in practice."""


def month_forecast(spent: Decimal, rate_per_hour: Decimal, as_of: datetime, month_ends_at: datetime) -> Decimal:
    """USD at the end of the month, when the present rate (USD an hour) stays."""
    return spent + cost(rate_per_hour, month_ends_at - as_of)


def exhausted_at(
    amount: Decimal, *, spent: Decimal, rate_per_hour: Decimal, as_of: datetime, period_ends_at: datetime | None
) -> datetime | None:
    """When `spent` reaches `amount` at the present rate. None: not in this period. `as_of`: it has already."""
    left = amount - spent
    if left <= 0:
        return as_of
    if rate_per_hour <= 0 or left / rate_per_hour * SECONDS_PER_HOUR > int(_LONGEST.total_seconds()):
        return None
    moment = as_of + timedelta(seconds=float(left / rate_per_hour * SECONDS_PER_HOUR))
    return None if period_ends_at is not None and moment >= period_ends_at else moment
