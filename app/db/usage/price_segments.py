"""The prices of attempts over time: every attempt is billed in segments of one price each.

A segment begins with the billing or with a change of the price, and ends with the next change or with the billing.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import CTE, ColumnElement, Subquery, func, literal_column, select, union_all

from app.db.schema.tables import attempt_price

_PLANNED: ColumnElement[int] = literal_column("0")
_CHANGED: ColumnElement[int] = literal_column("1")


def price_segments(table: CTE, columns: Sequence[str] = ()) -> Subquery:
    """attempt_id, starts_at, ends_at, price_per_hour (USD for compute) and price_source of each segment.

    `table`: attempts, with `id`, `billing_started_at`, `billing_ended_at`, `price_per_hour` and `price_source`.
    `columns`: further ones of the attempt. A change before the billing counts from its begin.
    """
    planned = select(
        table.c.id.label("attempt_id"),
        table.c.billing_started_at.label("starts_at"),
        table.c.billing_started_at.label("stated_at"),
        table.c.billing_ended_at,
        table.c.price_per_hour,
        table.c.price_source,
        _PLANNED.label("place"),
        *(table.c[name].label(f"of_{name}") for name in columns),
    )
    changed = select(
        table.c.id,
        func.greatest(attempt_price.c.starts_at, table.c.billing_started_at),
        attempt_price.c.starts_at,
        table.c.billing_ended_at,
        attempt_price.c.price_per_hour,
        attempt_price.c.price_source,
        _CHANGED,
        *(table.c[name] for name in columns),
    ).join_from(table, attempt_price, attempt_price.c.attempt_id == table.c.id)
    prices = union_all(planned, changed).subquery("prices")
    order: list[Any] = [prices.c.starts_at, prices.c.place, prices.c.stated_at]
    following = func.lead(prices.c.starts_at).over(partition_by=prices.c.attempt_id, order_by=order)
    return select(
        prices.c.attempt_id,
        prices.c.starts_at,
        func.least(following, prices.c.billing_ended_at).label("ends_at"),
        prices.c.price_per_hour,
        prices.c.price_source,
        *(prices.c[f"of_{name}"].label(name) for name in columns),
    ).subquery("price_segments")
