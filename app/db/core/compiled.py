"""Statements compiled once, at import: for the hottest paths, where compiling and wrapping cost more than the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, bindparam, func, literal, select
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.util import LRUCache

from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import TENANT

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
        values = {**self._fixed, **parameters}
        return [values[name] for name in self._names]


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


def within_tenant(statement: AnySelect) -> AnySelect:
    """`statement`, restricted to the tenant in its parameter TENANT."""
    setting = func.set_config("gpulease.tenant", bindparam(TENANT), literal(value=True))
    return statement.where(select(setting).scalar_subquery().is_not(None))


class Query(Compiled):
    """A SELECT for the most frequent reads: compiled at import, executed in one round trip within a tenant.

    A transaction costs three round trips: BEGIN with the tenant, the query, COMMIT. Here the query itself sets the tenant,
    in a condition that mentions no table. PostgreSQL evaluates such a condition once, before it reads any row. Row-level
    security reads the setting at the first row. If PostgreSQL ever reversed this order, the setting would be empty, and the
    query would return no row. The setting ends with the statement's own implicit transaction.
    """

    def __init__(self, statement: AnySelect) -> None:
        super().__init__(within_tenant(statement))
