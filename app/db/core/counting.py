"""The number of rows of a list."""

from sqlalchemy import func, literal_column, select

from app.db.core.statements import AnySelect


def count_of(statement: AnySelect) -> AnySelect:
    """(total): the rows of `statement` without its limit. `statement` is that of the first page."""
    rows: AnySelect = (
        statement.order_by(None).limit(None).with_only_columns(literal_column("1"), maintain_column_froms=True)
    )
    return select(func.count().label("total")).select_from(rows.subquery("counted"))
