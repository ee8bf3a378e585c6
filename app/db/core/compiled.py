"""Statements compiled once, at import: for the hottest paths, where compiling and wrapping cost more than the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.util import LRUCache

_DIALECT = asyncpg_dialect()


class Compiled:
    """SQL as the driver takes it. Values vary through `bindparam`s; one of a JSON type is given as JSON text."""

    def __init__(self, statement: ClauseElement) -> None:
        compiled: Any = statement.compile(dialect=_DIALECT)
        self.sql = str(compiled)
        self._fixed = dict(compiled.params)
        self._names = tuple(compiled.positiontup or ())

    def arguments(self, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """The values in the order of the placeholders."""
        given = {**self._fixed, **parameters}
        return [given[name] for name in self._names]


def with_values(statement: ClauseElement) -> str:
    """SQL with the values of `statement` written into it. For constants of the program and its settings alone."""
    return str(statement.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}))


class CompiledCache(LRUCache[Any, Any]):
    """SQLAlchemy's cache of compiled statements, for engines of equal configuration: a process compiles each once.

    A key of SQLAlchemy begins with the engine's dialect, an object that each engine has for itself.
    """

    __slots__ = ()

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key[1:])

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)
