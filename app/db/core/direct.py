"""Statements that never change, executed by psycopg itself: SQLAlchemy compiles each once, and its types convert values.

For a statement of one row SQLAlchemy takes 0.08 ms of CPU and psycopg 0.02 ms. Workers execute dozens for each lease.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import psycopg
from sqlalchemy import ClauseElement, Connection, Dialect, Engine, Row
from sqlalchemy.engine import CursorResult, IteratorResult, result_tuple
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.util import LRUCache

from app.db.core.prepared import Bound

Convert = Callable[[Any], Any]

_MOST_STATEMENTS = 1000


class DirectStatement:
    """A compiled statement. Later executions have parameters of the same names as `parameters`."""

    def __init__(self, statement: ClauseElement, parameters: Mapping[str, Any], dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect, column_keys=sorted(parameters))
        expanded = compiled.construct_expanded_state(parameters)
        if compiled.insert_prefetch or compiled.update_prefetch:
            raise TypeError(f"Python computes the default of a column: {compiled}")
        if not parameters.keys().isdisjoint(expanded.parameter_expansion):
            raise TypeError(f"the statement changes with the length of a list: {compiled}")
        self.sql = str(expanded.statement)
        processors = compiled._bind_processors  # noqa: SLF001 - only SQLAlchemy knows what its types do
        self._writers: Mapping[str, Convert] = {**processors, **expanded.processors}
        self._types = [column.type for column in compiled._result_columns]  # noqa: SLF001 - as above
        self._dialect = dialect
        self._readers: list[tuple[int, Convert]] = []
        self.make_row: Callable[[Iterable[Any]], Row[Any]] = result_tuple(())
        self.columns: tuple[str, ...] | None = None
        fixed = {name: value for name, value in expanded.parameters.items() if name not in parameters}
        self._fixed = {name: self._written(name, value) for name, value in fixed.items()}

    def values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """What psycopg is given."""
        return {**self._fixed, **{name: self._written(name, value) for name, value in parameters.items()}}

    def fetch(self, cursor: Any) -> list[Sequence[Any]]:
        """The rows of an execution, with the types that the statement declares."""
        if self.columns is None:
            self._describe(cursor.description or ())  # psycopg makes it anew at each look
        if not self.columns:
            return []
        rows: list[Sequence[Any]] = cursor.fetchall()
        return [self._read(list(row)) for row in rows] if self._readers else rows

    def _written(self, name: str, value: Any) -> Any:
        writer = self._writers.get(name)
        return value if writer is None else writer(value)

    def _describe(self, description: Sequence[Any]) -> None:
        """Two threads may do so at once: both find the same."""
        types = zip(self._types, description, strict=True) if self._types else ()
        readers = (
            kind.dialect_impl(self._dialect).result_processor(self._dialect, column.type_code) for kind, column in types
        )
        self._readers = [(place, reader) for place, reader in enumerate(readers) if reader is not None]
        columns = tuple(column.name for column in description)
        self.make_row, self.columns = result_tuple(columns), columns

    def _read(self, row: list[Any]) -> list[Any]:
        for place, reader in self._readers:
            row[place] = reader(row[place])
        return row


class QueryResult(NamedTuple):
    """What an execution returned. `rowcount`: of rows that it has changed or found, as the server says."""

    direct: DirectStatement
    rows: list[Sequence[Any]]
    rowcount: int

    def named(self) -> list[Row[Any]]:
        """The rows, whose values have names."""
        return list(map(self.direct.make_row, self.rows))


class FetchedResult(IteratorResult[Any]):
    """A result whose rows have been read, with all that SQLAlchemy's results can do."""

    def __init__(self, fetched: QueryResult) -> None:
        super().__init__(SimpleResultMetaData(fetched.direct.columns or ()), iter(fetched.rows))
        self.rowcount = fetched.rowcount


_KNOWN: LRUCache[Any, DirectStatement] = LRUCache(_MOST_STATEMENTS)


def _direct(asked: Bound[Any], dialect: Dialect) -> DirectStatement:
    key = (asked.statement, *asked.parameters)
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = DirectStatement(asked.statement, asked.parameters, dialect)
    return known


class DirectConnection(Connection):
    """A connection of a psycopg engine. A statement that is given with its parameters must be one that never changes."""

    def execute(  # pyrefly: ignore[bad-override]  # SQLAlchemy's overloads only differ in the types of the rows
        self, statement: Any, parameters: Any = None, *, execution_options: Any = None
    ) -> CursorResult[Any]:
        """As SQLAlchemy's."""
        if not isinstance(parameters, dict):
            return super().execute(statement, parameters, execution_options=execution_options)
        return cast(CursorResult[Any], FetchedResult(self.fetch(Bound(statement, parameters))))

    def fetch(self, asked: Bound[Any]) -> QueryResult:
        """Executes one statement. Raises SQLAlchemy's exceptions; a connection that is lost leaves the pool."""
        direct = _direct(asked, self.dialect)
        values = direct.values(asked.parameters)
        cursor = self.connection.cursor()
        try:
            cursor.execute(direct.sql, values)
            return QueryResult(direct, direct.fetch(cursor), cursor.rowcount)
        except psycopg.Error as error:
            self._handle_dbapi_exception(error, direct.sql, values, cursor, None)
        finally:
            cursor.close()


def fetch_at_once(engine: Engine, asked: Bound[Any]) -> QueryResult:
    """Executes one statement in a transaction of its own. Raises what `DirectConnection.fetch` does."""
    try:
        pooled = engine.raw_connection()
    except psycopg.Error as error:
        Connection._handle_dbapi_exception_noconnection(error, engine.dialect, engine)  # noqa: SLF001 - as `fetch`
        raise
    try:
        driver: Any = pooled.dbapi_connection
        driver.autocommit = True
        try:
            return DirectConnection(engine, pooled).fetch(asked)
        finally:
            if not driver.closed:
                driver.autocommit = False
    finally:
        pooled.close()
