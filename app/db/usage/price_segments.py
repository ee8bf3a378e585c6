"""The prices of attempts over time: every attempt is billed in segments of one price each.

A segment begins with the billing or with a change of the price, and ends with the next change or with the billing.
"""

from typing import Any

from sqlalchemy import CTE, ColumnElement, Subquery, func, literal_column, select, union_all

from app.db.schema.tables import attempt_price

_PLANNED: ColumnElement[int] = literal_column("0")
_CHANGED: ColumnElement[int] = literal_column("1")


def price_segments(billed: CTE) -> Subquery:
    """attempt_id, starts_at, ends_at, price_per_hour (USD for compute), price_source and price_as_of of each segment.

    `billed`: attempts with `id`, `billing_started_at`, `billed_until` and the columns of their planned price.
    """
    planned = select(
        billed.c.id.label("attempt_id"),
        billed.c.billing_started_at.label("starts_at"),
        billed.c.billed_until,
        billed.c.price_per_hour,
        billed.c.price_source,
        billed.c.price_as_of,
        _PLANNED.label("place"),
    )
    changed = select(
        billed.c.id,
        func.greatest(attempt_price.c.starts_at, billed.c.billing_started_at),
        billed.c.billed_until,
        attempt_price.c.price_per_hour,
        attempt_price.c.price_source,
        attempt_price.c.starts_at,
        _CHANGED,
    ).join_from(billed, attempt_price, attempt_price.c.attempt_id == billed.c.id)
    prices = union_all(planned, changed).subquery("prices")
    # two changes before the billing begins both count from its begin: the later row of the two has an empty segment
    # before it, because rows of one time are ordered by when the provider stated the price
    order: list[Any] = [prices.c.starts_at, prices.c.place, prices.c.price_as_of]
    following = func.lead(prices.c.starts_at).over(partition_by=prices.c.attempt_id, order_by=order)
    return select(
        prices.c.attempt_id,
        prices.c.starts_at,
        func.least(func.coalesce(following, prices.c.billed_until), prices.c.billed_until).label("ends_at"),
        prices.c.price_per_hour,
        prices.c.price_source,
        prices.c.price_as_of,
    ).subquery("price_segments")
