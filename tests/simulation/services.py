"""The API's services on the simulation's clock: their coroutines run to the end at once, over the one connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any, TypeVar, cast

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Connection

from app.db.core.compiled import Compiled, within_tenant
from app.db.core.connections import API_ROLE
from app.db.core.engine import ApiDatabase
from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import EVERY_TENANT, TENANT
from app.domain.ids import KeyId, LeaseId, TenantId
from app.domain.schema import SchemaRevisions
from app.services import offering_cache
from app.services.context import ServiceContext
from app.services.errors import ServiceError
from app.services.gpus import sample_batches
from app.services.principal import Principal, Role
from tests.simulation.processes import Grounds

T = TypeVar("T")

_AS_THE_API = f"SET LOCAL ROLE {API_ROLE}; SET LOCAL gpulease.tenant = '{EVERY_TENANT}';"


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine. Tasks that it leaves behind are done as well: nothing waits for real time here."""

    async def all_of_it() -> T:
        try:
            return await work
        finally:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*rest, return_exceptions=True)

    return _loop().run_until_complete(all_of_it())


def principal(role: Role, tenant_id: TenantId | None) -> Principal:
    """Somebody who calls the services. `tenant_id` None: an operator."""
    return Principal(
        key_id=KeyId("key_simulated"),
        key_name="simulated",
        role=role,
        tenant_id=tenant_id,
        address=None,
        request_id="simulated",
    )


def attempt(grounds: Grounds, noun: str, what: str, call: Coroutine[Any, Any, T]) -> T | ServiceError:
    """The answer to a call of a service, or its refusal. Both are counted."""

    async def called() -> T | ServiceError:
        try:
            return await call
        except ServiceError as error:
            return error

    answer = complete(called())
    refused = isinstance(answer, ServiceError)
    grounds.scheduler.count(f"{noun}: not {what}, {answer.code}" if refused else f"{noun}: {what}")
    return answer


@contextmanager
def without_waits() -> Iterator[None]:
    """What services do after some milliseconds is done at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_batches, "_WINDOW_SECONDS", 0)
        patch.setattr(offering_cache, "_MEASURED_SECONDS", 0)
        yield


def context(grounds: Grounds) -> ServiceContext:
    """What services work with."""
    return ServiceContext(
        database=cast("ApiDatabase", _Database(grounds)),
        settings=grounds.settings,
        hints=_Hints(grounds),
        schema=cast("SchemaRevisions", None),
    )


class _Hints:
    """Those for about half of the leases are lost."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def wake(self, lease_id: LeaseId) -> None:
        if ord(lease_id[-1]) % 2:
            self._grounds.hints.append(lease_id)


class _Raw:
    """The driver's connection, for statements that are compiled at import with asyncpg's `$1`."""

    def __init__(self, connection: Connection) -> None:
        self._driver: Any = connection.connection.driver_connection

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        with psycopg.RawCursor(self._driver, row_factory=dict_row) as cursor:
            cursor.execute(cast("Any", sql.encode()), arguments)
            return cursor.fetchall() if cursor.description else []


class _Connection:
    """An asynchronous connection's look over the synchronous one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.driver_connection = _Raw(connection)

    async def execute(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        return self._connection.execute(statement, parameters or {})

    async def run_sync(self, act: Callable[..., T], *arguments: Any) -> T:
        return act(self._connection, *arguments)

    async def get_raw_connection(self) -> Any:
        return self


class _Database:
    """As `ApiDatabase`. It sees every tenant: the walls between tenants have tests of their own."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    @asynccontextmanager
    async def transaction(self, _tenant: str | None, *, read_only: bool = False) -> AsyncIterator[_Connection]:
        clocked, scheduler = self._grounds.clocked, self._grounds.scheduler
        connection = clocked.begin(scheduler, _AS_THE_API)
        try:
            yield _Connection(connection)
        except BaseException:
            clocked.roll_back()
            raise
        clocked.commit()
        scheduler.changed = scheduler.changed or not read_only

    async def rows(self, _tenant: str | None, statement: AnySelect) -> list[dict[str, Any]]:
        async with self.transaction(None, read_only=True) as connection:
            found = await connection.execute(within_tenant(statement), {TENANT: EVERY_TENANT})
            return [dict(row) for row in found.mappings()]

    async def fetch(self, _tenant: str | None, query: Compiled, **parameters: Any) -> list[dict[str, Any]]:
        arguments = query.arguments({TENANT: EVERY_TENANT, **parameters})
        async with self.transaction(None, read_only=True) as connection:
            return await connection.driver_connection.fetch(query.sql, *arguments)
