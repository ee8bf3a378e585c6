"""The number of rows of a list."""

from typing import Any

from sqlalchemy import Select, func, literal_column, select


def count_of(statement: Select[Any]) -> Select[Any]:
    """(total): the rows of `statement` without its limit. `statement` is that of the first page."""
    rows: Select[Any] = (
        statement.order_by(None).limit(None).with_only_columns(literal_column("1"), maintain_column_froms=True)
    )
    return select(func.count().label("total")).select_from(rows.subquery("counted"))
