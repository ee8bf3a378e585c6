"""The API's services on the simulation's clock: their coroutines run to the end at once, over the one connection."""

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import Connection, Select

from app.db.core.compiled import Compiled
from app.db.core.engine import ApiDatabase
from app.domain.ids import LeaseId
from app.domain.schema import SchemaRevisions
from app.services.context import ServiceContext
from tests.simulation.cloud import Violation
from tests.simulation.processes import Grounds

T = TypeVar("T")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise Violation("a service waits for something that the simulation does not have")


def context(grounds: Grounds) -> ServiceContext:
    """What services work with. Half of the hints are lost."""
    return ServiceContext(
        database=cast("ApiDatabase", _Database(grounds)),
        settings=grounds.settings,
        hints=_Hints(grounds),
        schema=cast("SchemaRevisions", None),
    )


class _Hints:
    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def wake(self, lease_id: LeaseId) -> None:
        if lease_id[-1] in "0123456789abcdefg":
            self._grounds.hints.append(lease_id)


class _Connection:
    """An asynchronous connection's look over the synchronous one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        return self._connection.execute(statement, parameters or {})

    @property
    def raw(self) -> "_Raw":
        return _Raw(self._connection)

    async def get_raw_connection(self) -> Any:
        return self

    @property
    def driver_connection(self) -> "_Raw":
        return self.raw


class _Raw:
    """The driver's connection, for statements that are compiled at import (with `$1` as asyncpg has it)."""

    def __init__(self, connection: Connection) -> None:
        self._driver: Any = connection.connection.driver_connection

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        with psycopg.RawCursor(self._driver, row_factory=dict_row) as cursor:
            cursor.execute(cast("Any", sql.encode()), arguments)
            return cursor.fetchall() if cursor.description else []

    async def execute(self, sql: str, *arguments: Any) -> None:
        await self.fetch(sql, *arguments)

    async def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        for arguments in rows:
            await self.fetch(sql, *arguments)


class _Database:
    """As `ApiDatabase`. It sees every tenant: the walls between tenants have tests of their own."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    @asynccontextmanager
    async def transaction(self, _tenant: str | None, *, read_only: bool = False) -> AsyncIterator[_Connection]:
        clocked, scheduler = self._grounds.clocked, self._grounds.scheduler
        connection = clocked.begin(scheduler)
        try:
            yield _Connection(connection)
        except BaseException:
            clocked.roll_back()
            raise
        clocked.commit()
        scheduler.changed = scheduler.changed or not read_only

    async def rows(self, _tenant: str | None, statement: Select[Any], **parameters: Any) -> list[dict[str, Any]]:
        clocked = self._grounds.clocked
        clocked.set_time(self._grounds.scheduler)
        given = statement if not isinstance(statement, tuple) else statement[0]
        values = {**(statement[1] if isinstance(statement, tuple) else {}), **parameters}
        return [dict(row) for row in clocked.connection.execute(given, values).mappings()]

    async def fetch(self, _tenant: str | None, query: Compiled, **parameters: Any) -> list[dict[str, Any]]:
        clocked = self._grounds.clocked
        clocked.set_time(self._grounds.scheduler)
        arguments = query.arguments({"tenant": "", **parameters})
        return await _Raw(clocked.connection).fetch(query.sql, *arguments)
