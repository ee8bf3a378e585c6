"""The API's access to PostgreSQL: a pool of connections in the API's role, with one tenant for each transaction.

The module bypasses SQLAlchemy's transaction control. BEGIN and the tenant go out in one round trip, and COMMIT in
another. This saves a third of the CPU time of a short read (measured).
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import asyncpg
import orjson
from sqlalchemy import Row, event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.db.core.api_errors import BREAKS, is_lost, opening, sqlstate, translated
from app.db.core.compiled import Compiled, CompiledCache, Query, within_tenant
from app.db.core.connections import (
    API_ROLE,
    API_SESSION,
    MARKER,
    PREPARED_STATEMENTS,
    STATE,
    SessionSettings,
    new_marker,
    session_problem,
)
from app.db.core.server_state import (
    READ_ONLY,
    Info,
    ends_connection,
    note_opened,
    opened_before,
    opened_read_only,
)
from app.db.core.session_limits import IDLE_IN_TRANSACTION_SECONDS
from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import EVERY_TENANT, TENANT
from app.db.core.urls import async_url
from app.domain.ids import is_typeid

T = TypeVar("T")

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 20.0
"""The driver's time-out, for a dead connection whose statement PostgreSQL's own statement_timeout did not end."""
POOL_WAIT_SECONDS = 5.0
_COMPILED = CompiledCache(500)

_READ_ONLY_SECONDS = 5.0
"""Reads may use a connection to a read-only server for so long: afterwards another server may be in charge."""


class ApiDatabase:
    """A connection pool. `url` is postgresql://…; the pool opens connections when needed, `pool_size` at most."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 16,
        role: str = API_ROLE,
        idle_in_transaction_seconds: float = IDLE_IN_TRANSACTION_SECONDS,
    ) -> None:
        self._pool_size = pool_size
        self._engine: AsyncEngine = create_async_engine(
            async_url(url),
            isolation_level="AUTOCOMMIT",
            json_deserializer=orjson.loads,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=POOL_WAIT_SECONDS,
            pool_use_lifo=True,
            pool_reset_on_return=None,
            connect_args=_CONNECT_ARGS,
            execution_options={"compiled_cache": _COMPILED},
        )
        self._session = replace(API_SESSION, role=role).end_idle_transactions(idle_in_transaction_seconds)
        self._replaced_before = 0.0
        """The pool replaces connections that were opened before this moment of the monotonic clock."""
        _configure_connections(self._engine, self._session, self._is_outdated)

    @contextlib.asynccontextmanager
    async def transaction(self, tenant: str | None, *, read_only: bool = False) -> AsyncIterator[AsyncConnection]:
        """Commits on exit, rolls back on an exception. With `tenant` None it sees every tenant (operators, key checks).

        All statements of a `read_only` transaction see one snapshot: what was committed before its first statement.
        Raises DatabaseUnavailable. The pool replaces a dead connection before anything is sent.
        """
        with translated():
            connection, raw = await self._begin(tenant, read_only=read_only)
            try:
                yield connection
                await _commit(raw)
            except BaseException as error:
                await self._give_up(connection, raw, error)
                raise
            finally:
                await connection.close()

    async def fetch(self, tenant: str | None, query: Query, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a compiled query in one round trip. A query on a lost connection is retried, since it writes nothing.

        Raises DatabaseUnavailable.
        """
        arguments = query.arguments({**parameters, TENANT: _setting(tenant)})
        return await self._read(lambda: self._fetch(query.sql, arguments))

    async def rows(self, tenant: str | None, statement: AnySelect) -> list[dict[str, Any]]:
        """Like `fetch`, for a statement that is built at run time."""
        read, parameters = within_tenant(statement), {TENANT: _setting(tenant)}
        return await self._read(lambda: self._execute(read, parameters))

    def _is_outdated(self, info: Info) -> bool:
        """Whether the pool must replace a connection before it is used."""
        limit = time.monotonic() - _READ_ONLY_SECONDS
        return opened_before(info, self._replaced_before) or (opened_read_only(info) and opened_before(info, limit))

    async def _give_up(self, connection: AsyncConnection, raw: Any, error: BaseException) -> None:
        """Rolls back. An error about the server ends the connection; a read-only server ends those opened before, too."""
        state = sqlstate(error)
        if state == READ_ONLY:
            self._replaced_before = time.monotonic()
        if state is not None and ends_connection(state):
            await connection.invalidate()
        else:
            await _roll_back(connection, raw)

    async def _read(self, work: Callable[[], Awaitable[T]]) -> T:
        """Retries on lost connections.

        After a restart every one may be dead, so there is one try more than connections.
        """
        tries_left = self._pool_size
        with translated():
            while True:
                try:
                    return await work()
                except BaseException as error:
                    if not tries_left or not is_lost(error):
                        raise
                tries_left -= 1

    async def _fetch(self, sql: str, arguments: Sequence[Any]) -> list[dict[str, Any]]:
        """Uses the driver's connection directly: SQLAlchemy's own code around it costs more than the query."""
        with opening():
            pooled: Any = await self._engine.raw_connection()
        try:
            return [dict(record) for record in await pooled.driver_connection.fetch(sql, *arguments)]
        except BaseException:
            pooled.invalidate()
            raise
        finally:
            pooled.close()

    async def _execute(self, statement: AnySelect, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        with opening():
            connection = await self._engine.connect()
        try:
            result = await connection.execute(statement, parameters)
            return [dict(row) for row in result.mappings()]
        except BaseException:
            await connection.invalidate()
            raise
        finally:
            await connection.close()

    async def session_problem(self, connection: AsyncConnection) -> str | None:
        """What is wrong with the session of this connection (its role or its owner); None when it is healthy."""
        state: Row[Any] = (await connection.execute(STATE)).one()
        return session_problem(state, self._session, (await connection.get_raw_connection()).info[MARKER])

    async def close(self) -> None:
        """Closes the pooled connections."""
        await self._engine.dispose()

    async def _begin(self, tenant: str | None, *, read_only: bool) -> tuple[AsyncConnection, Any]:
        """Retries like `_read`: nothing has been written yet.

        A transaction that may write is not begun on an older connection to a read-only server.
        """
        begin, started = _begin(tenant, read_only=read_only), time.monotonic()
        tries_left = self._pool_size
        while True:
            with opening():
                connection = await self._engine.connect()
            pooled = await connection.get_raw_connection()
            if not read_only and opened_read_only(pooled.info) and opened_before(pooled.info, started):
                self._replaced_before = started
                await connection.close()
                continue
            raw: Any = pooled.driver_connection
            try:
                await raw.execute(begin)
            except BaseException as error:
                await connection.invalidate()
                await connection.close()
                if not tries_left or not is_lost(error):
                    raise
            else:
                return connection, raw
            tries_left -= 1


async def fetch(
    connection: AsyncConnection, statement: Compiled, parameters: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of a compiled statement within the transaction of `connection`."""
    raw = await _driver_connection(connection)
    return [dict(record) for record in await raw.fetch(statement.sql, *statement.arguments(parameters))]


async def copy_csv(connection: AsyncConnection, sql: str, arguments: Sequence[Any]) -> bytes:
    """The rows of a query as CSV without a header, written by PostgreSQL, within the transaction of `connection`."""
    raw = await _driver_connection(connection)
    parts: list[bytes] = []

    async def write(part: bytes) -> None:  # a file would be written to in another thread, piece by piece
        parts.append(part)

    await raw.copy_from_query(sql, *arguments, output=write, format="csv")
    return b"".join(parts)


_CONNECT_ARGS: Mapping[str, Any] = MappingProxyType(
    {
        "timeout": CONNECT_SECONDS,
        "command_timeout": COMMAND_SECONDS,
        "prepared_statement_cache_size": PREPARED_STATEMENTS,
        "server_settings": {"application_name": "gpulease-api"},
    }
)


def _configure_connections(engine: AsyncEngine, settings: SessionSettings, is_outdated: Callable[[Info], bool]) -> None:
    """The same as `connections.configure_connections`, for asyncpg. The pool replaces what is outdated."""

    def configure(connection: Any, record: Any) -> None:
        record.info[MARKER] = new_marker()
        try:
            applied = connection.run_async(lambda raw: raw.fetchrow(settings.statement(record.info[MARKER])))
            note_opened(record.info, applied[-1])
        except BaseException:
            connection.close()
            raise

    def check(_connection: Any, record: Any, _proxy: Any) -> None:
        if is_outdated(record.info):
            raise exc.DisconnectionError("the connection may lead to a server that is no longer in charge")

    event.listen(engine.sync_engine, "connect", configure)
    event.listen(engine.sync_engine, "checkout", check)


def _begin(tenant: str | None, *, read_only: bool) -> str:
    """A simple query, whose text contains the tenant: `_setting` has checked the alphabet of the id.

    Between two statements at READ COMMITTED a job may close an hour: a report would then count it twice. A transaction
    that writes takes locks instead, and must see what others committed before it got them.
    """
    mode = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if read_only else ""
    return f"BEGIN{mode}; SET LOCAL gpulease.tenant = '{_setting(tenant)}'"


def _setting(tenant: str | None) -> str:
    if tenant is None:
        return EVERY_TENANT
    if not is_typeid("tenant", tenant):
        raise ValueError("not a tenant id")
    return tenant


async def _driver_connection(connection: AsyncConnection) -> Any:
    return (await connection.get_raw_connection()).driver_connection


async def _commit(raw: Any) -> None:
    """Raises RuntimeError when PostgreSQL answers ROLLBACK, as it does after a failed transaction, without an error."""
    if await raw.execute("COMMIT") != "COMMIT":
        raise RuntimeError("a failed statement was swallowed: the transaction was rolled back")


async def _roll_back(connection: AsyncConnection, raw: Any) -> None:
    """Discards a connection that cannot roll back; the server then rolls back."""
    try:
        await raw.execute("ROLLBACK")
    except (asyncpg.PostgresError, *BREAKS):
        await connection.invalidate()
