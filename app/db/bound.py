"""Statements that are put together once, with the values of one execution: for what is asked a thousand times a minute.

Putting a statement of sixty columns together takes ten times as long as looking it up, and longer than running it.
"""

from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Executable

E_co = TypeVar("E_co", bound=Executable, covariant=True)


class Bound(NamedTuple, Generic[E_co]):
    """`statement` never changes; `parameters` are the values of its `bindparam`s."""

    statement: E_co
    parameters: dict[str, Any]


def parts(asked: Executable | Bound[Executable]) -> Bound[Executable]:
    """As a connection executes it: a statement with its values inside has no others."""
    return asked if isinstance(asked, Bound) else Bound(asked, {})
