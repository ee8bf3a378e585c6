"""Rows that a statement is given as one JSON array: for bulk writes whose columns have many types."""

from sqlalchemy import BindParameter, ColumnClause, TableValuedAlias, Text, bindparam, cast, func

from app.db.core.column_types import Json

ROWS = "rows"
"""The statement's parameter: a JSON array of objects, as text. A bytea column takes what `hexadecimal` gives."""


def recordset(name: str, *columns: ColumnClause[object]) -> TableValuedAlias:
    """A row for each object of the parameter `rows`, with a member for each column. A missing member is null."""
    rows: BindParameter[str] = bindparam(ROWS, type_=Text)
    typed = func.jsonb_to_recordset(cast(rows, Json)).table_valued(*columns, name=name)
    return typed.render_derived(name=name, with_types=True)


def hexadecimal(value: bytes | None) -> str | None:
    """PostgreSQL's text form of bytea."""
    return None if value is None else rf"\x{value.hex()}"
