"""What a VM costs for the time that it is billed: the one place where a price per hour becomes an amount.

`app.db.leases.billing` is the same rule for SQL. A test feeds both the same values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from app.domain.offerings import Market
from app.domain.rates import Rate

SECONDS_PER_HOUR = 3600
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = Decimal(SECONDS_PER_HOUR * 1_000_000)
_STORED = Decimal("0.000001")


def ran_until(
    seen_at: datetime | None,
    *,
    deadline: datetime | None,
    term_in_doubt: bool,
    market: str,
    terminate_sent_at: datetime | None,
    looked_at: datetime,
) -> datetime | None:
    """Until when a VM counts as running that `looked_at` found gone, where the provider gives no time of its end.

    That is when it was last seen, or its tagged deadline where this passed since. The dead-man switch ends the VM then.
    Only a request of gpulease ends an on-demand VM earlier. The provider may take a spot VM at any time.
    `deadline` None: it is unknown. `term_in_doubt`: a restored database may have lost such a request. Returns None for a
    VM that was never seen.
    """
    if deadline is None or term_in_doubt or deadline > looked_at or market == Market.SPOT:
        return seen_at
    if terminate_sent_at is not None and terminate_sent_at < deadline:
        return seen_at
    return deadline if seen_at is None else max(seen_at, deadline)


def cost(price_per_hour: Decimal, duration: timedelta) -> Decimal:
    """USD, not rounded. `price_per_hour`: USD. A negative duration costs nothing."""
    return price_per_hour * (max(duration, timedelta(0)) // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def stored_cost(price_per_hour: Decimal, duration: timedelta) -> Decimal:
    """USD to a millionth, as it is stored."""
    return cost(price_per_hour, duration).quantize(_STORED)


def term_cost(rate: Rate, ttl_seconds: int) -> Decimal:
    """USD of a whole term at `rate`, rounded up to a millionth: a limit of this amount pays for every second of it."""
    return cost(rate.total, timedelta(seconds=ttl_seconds)).quantize(_STORED, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """The compute price of a running attempt from `starts_at` on. USD an hour."""

    starts_at: datetime
    price_per_hour: Decimal


def closed_cost(
    rate: Rate, started_at: datetime | None, ended_at: datetime, changes: Iterable[PriceChange] = ()
) -> Decimal:
    """USD of an attempt whose billing has ended, to a millionth, as it is stored. `started_at` None: it was never billed.

    `rate`: as planned. `changes`: of its compute price while it ran, in any order. A change outside of the billed time
    counts for the part of that time that is after it.
    """
    if started_at is None:
        return Decimal(0)
    parts = rate.total - rate.compute
    total, since, compute = Decimal(0), started_at, rate.compute
    for change in sorted(changes, key=lambda price_change: price_change.starts_at):
        until = min(max(change.starts_at, since), ended_at)
        total += cost(compute + parts, until - since)
        since, compute = max(until, since), change.price_per_hour
    return (total + cost(compute + parts, ended_at - since)).quantize(_STORED)
