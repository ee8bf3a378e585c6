"""The cost of billed time in SQL: the same rule as `app.domain.billing`."""

from typing import Any

from sqlalchemy import ColumnElement, func, literal_column

from app.domain.billing import SECONDS_PER_HOUR

_SECONDS_PER_HOUR: ColumnElement[int] = literal_column(str(SECONDS_PER_HOUR))
_ZERO: ColumnElement[int] = literal_column("0")


def cost(
    price_per_hour: ColumnElement[Any], since: ColumnElement[Any], until: ColumnElement[Any]
) -> ColumnElement[Any]:
    """USD, not rounded; null when a price or time is null. A negative duration costs nothing."""
    return price_per_hour * seconds(since, until) / _SECONDS_PER_HOUR


def seconds(since: ColumnElement[Any], until: ColumnElement[Any]) -> ColumnElement[Any]:
    """Billed seconds; null when a time is null. A negative duration counts as zero."""
    return func.greatest(func.extract("epoch", until - since), _ZERO)
