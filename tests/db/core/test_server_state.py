"""Errors about the server behind a connection: the first request after the cause has gone is served, with no other help."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from app.db.core import engine
from app.db.core.api_errors import DatabaseUnavailable
from app.db.core.engine import ApiDatabase
from app.db.core.prepared import Bound
from tests.harness.databases import Databases, end_connections
from workers.runtime.database import WorkerDatabase, is_outage

OF_THE_SERVER = (
    *("08000", "08003", "08006", "08P01"),
    *("25006", "25P03", "25P04", "26000", "3D000"),
    *("28000", "28P01"),
    *("53000", "53100", "53200", "53300", "53400"),
    *("57P01", "57P02", "57P03", "57P04", "57P05"),
    *("58000", "58030", "58P01"),
)
OF_THE_STATEMENT = ("22012", "23505", "40001", "40P01", "42601", "55P03", "57014", "P0001")
TIMED_OUT_OR_CONFLICT = {"40001", "40P01", "55P03", "57014"}
PID = text("SELECT pg_backend_pid() AS pid")
SLOW = select(func.pg_backend_pid().label("pid"), func.pg_sleep(0.1))
WRITE = text("UPDATE tenant SET name = name WHERE id = 'nobody'")
POOL = 3


@pytest.fixture(scope="module")
def databases(postgres_server: str) -> Iterator[Databases]:
    """A database whose connections no other test has opened or takes over."""
    with closing(Databases(postgres_server)) as made:
        yield made


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    with databases.fresh() as url:
        yield url


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[ApiDatabase]:
    opened = ApiDatabase(database_url, pool_size=POOL)
    yield opened
    await opened.close()


@pytest.fixture
def workers(database_url: str) -> Iterator[WorkerDatabase]:
    opened = WorkerDatabase(database_url, pool_size=POOL)
    yield opened
    opened.close()


def failing(state: str) -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"


async def pid(api: ApiDatabase) -> int:
    async with api.transaction(None) as connection:
        return int((await connection.execute(PID)).scalar_one())


async def write(api: ApiDatabase, statement: str = str(WRITE)) -> None:
    async with api.transaction(None) as connection:
        await connection.execute(text(statement))


async def read_at_once(api: ApiDatabase) -> set[int]:
    """As many reads as the pool has connections."""

    async def read() -> int:
        return int((await api.rows(None, SLOW))[0]["pid"])

    return set(await asyncio.gather(*(read() for _ in range(POOL))))


@contextmanager
def state_of(database_url: str, databases: Databases, on: str, off: str) -> Iterator[None]:
    """The database is altered by a superuser, for sessions that begin inside the block."""
    name = database_url.rpartition("/")[2]
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" {on}'.encode())
        try:
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" {off}'.encode())


READ_ONLY = ("SET default_transaction_read_only = on", "RESET default_transaction_read_only")
FULL = ("CONNECTION LIMIT 0", "CONNECTION LIMIT -1")


@pytest.mark.parametrize("state", OF_THE_SERVER)
async def test_an_error_about_the_server_ends_the_connection(
    api: ApiDatabase, workers: WorkerDatabase, state: str
) -> None:
    api_pid, worker_pid = await pid(api), workers.all(PID)[0].pid
    with pytest.raises(DatabaseUnavailable):
        await write(api, failing(state))
    with pytest.raises(DBAPIError) as failed, workers.begin() as connection:
        connection.execute(text(failing(state)))
    assert is_outage(failed.value)
    await write(api)
    workers.run(WRITE)
    assert await pid(api) != api_pid
    assert workers.all(PID)[0].pid != worker_pid


@pytest.mark.parametrize("state", OF_THE_STATEMENT)
async def test_an_error_about_a_statement_leaves_the_connection(
    api: ApiDatabase, workers: WorkerDatabase, state: str
) -> None:
    api_pid, worker_pid = await pid(api), workers.all(PID)[0].pid
    with pytest.raises(DatabaseUnavailable if state in TIMED_OUT_OR_CONFLICT else DBAPIError):
        await write(api, failing(state))
    with pytest.raises(DBAPIError) as failed, workers.begin() as connection:
        connection.execute(text(failing(state)))
    assert not is_outage(failed.value)
    assert await pid(api) == api_pid
    assert workers.all(PID)[0].pid == worker_pid


async def test_a_session_that_lost_its_role_is_not_used_again(api: ApiDatabase, workers: WorkerDatabase) -> None:
    denied = failing("42501")
    api_pid, worker_pid = await pid(api), workers.all(PID)[0].pid
    with pytest.raises(DBAPIError):
        await write(api, denied)
    with pytest.raises(DBAPIError) as failed:
        workers.run(text(denied))
    assert not is_outage(failed.value), "it may be a fault of the program"
    assert await pid(api) != api_pid
    assert workers.all(PID)[0].pid != worker_pid


async def test_after_a_read_only_server_the_api_writes_at_once(
    api: ApiDatabase, database_url: str, databases: Databases
) -> None:
    with state_of(database_url, databases, *READ_ONLY):
        led_there = await read_at_once(api)
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="read-only"):
                await write(api)
            led_there = await read_at_once(api)
    assert len(led_there) == POOL, "the whole pool leads to the read-only server"
    await asyncio.gather(*(write(api) for _ in range(POOL)))


async def test_after_a_read_only_server_workers_write_at_once(
    workers: WorkerDatabase, database_url: str, databases: Databases
) -> None:
    with state_of(database_url, databases, *READ_ONLY):
        with pytest.raises(DBAPIError) as failed:
            workers.run(WRITE)
        with workers.begin() as one, workers.begin() as other:
            assert one.execute(PID).scalar_one() != other.execute(PID).scalar_one()
    assert is_outage(failed.value)
    with workers.begin() as one, workers.begin() as other:
        one.execute(WRITE)
        other.execute(WRITE)


async def test_all_sessions_end_with_the_first_that_became_read_only(api: ApiDatabase, workers: WorkerDatabase) -> None:
    """As behind a proxy that leads the same sessions to another server."""

    async def demote() -> None:
        async with api.transaction(None) as connection:
            await connection.execute(text("SET default_transaction_read_only = on"))
            await connection.execute(text("SELECT pg_sleep(0.05)"))

    await asyncio.gather(*(demote() for _ in range(POOL)))
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        await write(api)
    await asyncio.gather(*(write(api) for _ in range(POOL)))

    with workers.begin() as one, workers.begin() as other:
        for connection in (one, other):
            connection.execute(text("SET default_transaction_read_only = on"))
    with pytest.raises(DBAPIError):
        workers.run(WRITE)
    with workers.begin() as one, workers.begin() as other:
        one.execute(WRITE)
        other.execute(WRITE)


async def test_reads_do_not_stay_with_a_read_only_server(
    api: ApiDatabase, database_url: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with state_of(database_url, databases, *READ_ONLY):
        before = await read_at_once(api)
        assert await read_at_once(api) == before
    monkeypatch.setattr(engine, "_READ_ONLY_SECONDS", 0.0)
    after = await read_at_once(api)
    assert after.isdisjoint(before)
    assert await read_at_once(api) == after


async def test_a_server_without_free_connections_is_away_until_it_has_some(
    api: ApiDatabase, workers: WorkerDatabase, database_url: str, databases: Databases
) -> None:
    with state_of(database_url, databases, *FULL):
        for _ in range(POOL + 1):
            with pytest.raises(DatabaseUnavailable):
                await write(api)
            with pytest.raises(DatabaseUnavailable):
                await api.rows(None, SLOW)
            with pytest.raises(DBAPIError) as failed:
                workers.run(WRITE)
            assert is_outage(failed.value)
    await asyncio.gather(*(write(api) for _ in range(POOL)))
    workers.run(WRITE)


async def test_a_server_that_does_not_accept_the_role_is_away(
    api: ApiDatabase, database_url: str, databases: Databases
) -> None:
    login = sql.Identifier(database_url.rpartition("/")[2])
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(login))
        try:
            with pytest.raises(DatabaseUnavailable):
                await write(api)
        finally:
            connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(login))
    await write(api)


async def test_a_server_that_does_not_give_a_session_its_role_is_away(database_url: str, databases: Databases) -> None:
    """The settings of a session are constants of the program: no statement of a lease or job is at fault."""
    name = f"gpulease_test_login_{secrets.token_hex(4)}"
    login = sql.Identifier(name)
    server = database_url.rpartition("@")[2]
    url = f"postgresql://{name}:secret@{server}"
    api, workers = ApiDatabase(url, pool_size=POOL), WorkerDatabase(url, pool_size=POOL)
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(login))
        try:
            for read in (write(api), api.rows(None, SLOW)):
                with pytest.raises(DatabaseUnavailable):
                    await read
            for statement in (WRITE, Bound(PID, {})):
                with pytest.raises(DBAPIError) as failed:
                    workers.all(statement)
                assert is_outage(failed.value)
            connection.execute(sql.SQL("GRANT gpulease_api, gpulease_worker TO {}").format(login))
            await write(api)
            workers.run(WRITE)
        finally:
            await api.close()
            workers.close()
            connection.execute(sql.SQL("DROP ROLE {}").format(login))


async def test_ended_sessions_are_replaced_in_the_request_that_finds_them(api: ApiDatabase, database_url: str) -> None:
    await read_at_once(api)
    end_connections(database_url)
    await write(api)
