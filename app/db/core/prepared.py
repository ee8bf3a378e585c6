"""Statements that are put together once, with the values of one execution: for what is asked a thousand times a minute.

Putting a statement of sixty columns together takes ten times as long as looking it up, and longer than running it.
"""

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ClauseElement, Connection, Executable, Table, bindparam
from sqlalchemy.engine import CursorResult

E_co = TypeVar("E_co", bound=Executable, covariant=True)


class Bound(NamedTuple, Generic[E_co]):
    """`statement` never changes; `parameters` are the values of its `bindparam`s. A connection executes `*bound`."""

    statement: E_co
    parameters: dict[str, Any]


def execute(connection: Connection, asked: Executable | Bound[Executable]) -> CursorResult[Any]:
    """Executes a statement whose values are inside it, or beside it."""
    return connection.execute(*asked) if isinstance(asked, Bound) else connection.execute(asked)


Shape = tuple[tuple[str, ClauseElement | None], ...]
"""Columns that a statement sets: to an expression, which is part of it, or (None) to a value of one execution."""


def shape(values: Mapping[str, Any]) -> Shape:
    """What a statement that sets `values` is remembered by. Expressions should be constants of their module."""
    return tuple((name, value if isinstance(value, ClauseElement) else None) for name, value in values.items())


def setting(table: Table, columns: Shape) -> dict[str, Any]:
    """What `values()` of the remembered statement is given."""
    return {
        name: bindparam(f"new_{name}", type_=table.c[name].type) if expression is None else expression
        for name, expression in columns
    }


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of one execution."""
    return {f"new_{name}": value for name, value in values.items() if not isinstance(value, ClauseElement)}
