"""Shared parts of statements: types of columns and statements, counts, rows given as JSON, and turns of tenants."""

from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnClause,
    Numeric,
    Select,
    TableValuedAlias,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.sql.dml import ReturningInsert

AnySelect = Select[*tuple[Any, ...]]
AnyInsert = ReturningInsert[*tuple[Any, ...]]


Id = Text(collation="C")
"""TypeIDs are text, compared bytewise."""

Time = TIMESTAMP(timezone=True)
Json = JSONB(none_as_null=True)
Money = Numeric(14, 6)
"""USD. Never a float."""

Amount = Numeric(14, 6)
"""Quota amounts: whole numbers or USD an hour."""


def count_of(statement: AnySelect) -> AnySelect:
    """(total): the rows of `statement` without its limit. `statement` is that of the first page."""
    rows: AnySelect = (
        statement.order_by(None).limit(None).with_only_columns(literal_column("1"), maintain_column_froms=True)
    )
    return select(func.count().label("total")).select_from(rows.subquery("counted"))


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


def by_turns(rows: AnySelect, *, first: str, limit: Any) -> AnySelect:
    """At most `limit` of the rows. Tenants take turns, each with its row that comes first by the column `first`.

    So rows of one tenant, however many there are and whether or not they can be handled, keep no other tenant from its turn.
    `rows` has the column `tenant_id`.
    """
    candidates = rows.subquery("found")
    turn = func.row_number().over(partition_by=candidates.c.tenant_id, order_by=candidates.c[first])
    lined_up = select(candidates, turn.label("turn")).subquery("lined_up")
    columns = (column for column in lined_up.c if column.name != "turn")
    return select(*columns).order_by(lined_up.c.turn, lined_up.c[first]).limit(limit)
