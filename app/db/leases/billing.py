"""Money in SQL: the cost of billed time and the price segments of attempts, as `app.domain.billing` has them.

The effective end of a lease (`app.domain.leases.Lease.ends_at`) and when its cost reaches the spend cap are here too.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Subquery,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    union_all,
)

from app.db.schema.tables import attempt, attempt_price
from app.domain.billing import SECONDS_PER_HOUR

_SECONDS_PER_HOUR: ColumnElement[int] = literal_column(str(SECONDS_PER_HOUR))
_ZERO: ColumnElement[int] = literal_column("0")
_LONGEST: ColumnElement[int] = literal_column("3153600000")
"""Seconds of a hundred years: a spend cap that lasts longer ends no lease, and would not fit a time."""
_SECOND: ColumnElement[Any] = literal_column("interval '1 second'")


def cost(
    price_per_hour: ColumnElement[Any], since: ColumnElement[Any], until: ColumnElement[Any]
) -> ColumnElement[Any]:
    """USD, not rounded; null when a price or time is null. A negative duration costs nothing."""
    return price_per_hour * seconds(since, until) / _SECONDS_PER_HOUR


def seconds(since: ColumnElement[Any], until: ColumnElement[Any]) -> ColumnElement[Any]:
    """Billed seconds; null when a time is null. A negative duration counts as zero."""
    return func.greatest(func.extract("epoch", until - since), _ZERO)


def parts(row: FromClause) -> ColumnElement[Any]:
    """USD an hour of what an attempt pays besides compute. `row`: of `attempt` or `attempt_archive`."""
    return func.coalesce(row.c.disk_price_per_hour, _ZERO) + func.coalesce(row.c.address_price_per_hour, _ZERO)


def price_segments(table: FromClause = attempt, columns: Sequence[str] = ()) -> Subquery:
    """The billed time of attempts, divided where their compute price changed.

    Rows: attempt_id, starts_at, ends_at (null: it is billed on), price_per_hour and price_source (of compute),
    rate_per_hour (of all parts), and `columns` of the attempt. `table`: `attempt`, some of its rows, or `attempt_archive`,
    which has no source of planned prices.
    """
    planned, changed, later = table.alias("planned"), table.alias("changed"), attempt_price.alias("later")
    source = planned.c.price_source if "price_source" in planned.c else null()
    begun = planned.c.billing_started_at.is_not(None)
    change = attempt_price.alias("change")
    first = select(
        planned.c.id.label("attempt_id"),
        planned.c.billing_started_at.label("starts_at"),
        func.least(_next(later, planned.c.id), planned.c.billing_ended_at).label("ends_at"),
        planned.c.price_per_hour.label("price_per_hour"),
        source.label("price_source"),
        (planned.c.price_per_hour + parts(planned)).label("rate_per_hour"),
        *(planned.c[name] for name in columns),
    ).where(begun)
    following = (
        select(
            changed.c.id,
            func.greatest(change.c.starts_at, changed.c.billing_started_at),
            func.least(_next(later, change.c.attempt_id, change.c.starts_at), changed.c.billing_ended_at),
            change.c.price_per_hour,
            change.c.price_source,
            change.c.price_per_hour + parts(changed),
            *(changed.c[name] for name in columns),
        )
        .select_from(change.join(changed, changed.c.id == change.c.attempt_id))
        .where(or_(changed.c.billing_ended_at.is_(None), change.c.starts_at < changed.c.billing_ended_at))
    )
    return union_all(first, following).subquery("segment")


def _next(change: Any, attempt_id: ColumnElement[Any], after: ColumnElement[Any] | None = None) -> ColumnElement[Any]:
    later = [change.c.starts_at > after] if after is not None else []
    return select(func.min(change.c.starts_at)).where(change.c.attempt_id == attempt_id, *later).scalar_subquery()


def accrued(row: FromClause, as_of: ColumnElement[Any]) -> ColumnElement[Any]:
    """USD that a lease has cost until `as_of`: what is closed, and the present rate since it applies."""
    return row.c.cost_closed + func.coalesce(cost(row.c.rate_per_hour, row.c.rate_since, as_of), _ZERO)


def ends_at(row: FromClause) -> ColumnElement[Any]:
    """The effective end of a lease. `least` ignores a null."""
    return func.least(row.c.expires_at, row.c.cost_reached_at)


def cost_reached_at(
    max_cost: ColumnElement[Any],
    cost_closed: ColumnElement[Any],
    rate_per_hour: ColumnElement[Any],
    rate_since: ColumnElement[Any],
) -> ColumnElement[Any]:
    """When the cost of a lease reaches its spend cap. Null: never at this rate, no cap, or nothing is billed.

    Rounded down to a microsecond: until then the lease costs no more than its cap, which bounds what budgets hold of it.
    Where `cost_closed` alone has reached the cap, it is the start of the rate, or now.
    """
    left = func.least((max_cost - cost_closed) * _SECONDS_PER_HOUR / func.nullif(rate_per_hour, _ZERO), _LONGEST)
    return case(
        (cost_closed >= max_cost, func.coalesce(rate_since, func.now())),
        (rate_per_hour > _ZERO, rate_since + func.trunc(left, 6) * _SECOND),
    )


def cap_used_up_at(row: FromClause, cost_closed: ColumnElement[Any]) -> ColumnElement[Any]:
    """`cost_reached_at` of a lease that is not billed: set where `cost_closed` has reached its cap."""
    used_up = cost_closed >= row.c.max_cost
    return case((used_up, func.coalesce(row.c.cost_reached_at, func.now())))
