"""The API's connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.core.api_errors import DatabaseUnavailable
from app.db.core.compiled import Query, within_tenant
from app.db.core.engine import ApiDatabase
from app.db.core.tenant_scope import TENANT
from app.db.schema.tables import quota, tenant
from app.local.ports import free_port
from tests.harness.databases import end_connections

Read = Callable[[str | None], Awaitable[list[str]]]

ONE = "tenant_01jz0000000000000000000001"
TWO = "tenant_01jz0000000000000000000002"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[ApiDatabase]:
    opened = ApiDatabase(database_url, pool_size=3)
    async with opened.transaction(None) as connection:
        for tenant_id in (ONE, TWO):
            await connection.execute(insert(tenant).values(row(tenant_id)))
    yield opened
    await opened.close()


def row(tenant_id: str) -> dict[str, object]:
    return {"id": tenant_id, "name": tenant_id, "max_ttl_seconds": 60, "max_total_seconds": 60}


async def seen(database: ApiDatabase, tenant_id: str | None) -> list[str]:
    async with database.transaction(tenant_id, read_only=True) as connection:
        return list((await connection.execute(select(tenant.c.id).order_by(tenant.c.id))).scalars())


async def test_a_transaction_sees_its_tenant_alone(database: ApiDatabase) -> None:
    assert await seen(database, ONE) == [ONE]
    assert await seen(database, TWO) == [TWO]
    assert await seen(database, None) == [ONE, TWO]


async def test_tenants_at_the_same_time_do_not_mix(database: ApiDatabase) -> None:
    answers = await asyncio.gather(*(seen(database, tenant_id) for tenant_id in [ONE, TWO] * 50))
    assert answers == [[ONE], [TWO]] * 50


async def test_it_runs_as_the_role_that_row_level_security_binds(database: ApiDatabase) -> None:
    async with database.transaction(None) as connection:
        assert (await connection.execute(text("SELECT current_user"))).scalar_one() == "gpulease_api"

    async def write_anothers() -> None:
        async with database.transaction(ONE) as connection:
            await connection.execute(insert(tenant).values(row("tenant_01jz0000000000000000000003")))

    with pytest.raises(DBAPIError, match="row-level security"):
        await write_anothers()


@pytest.mark.parametrize("tenant_id", ["*", "", "x'; RESET ROLE; --", "tenant_01jz0000000000000000000001'"])
async def test_what_is_no_tenant_id_reaches_no_statement(database: ApiDatabase, tenant_id: str) -> None:
    with pytest.raises(ValueError, match="not a tenant id"):
        await seen(database, tenant_id)


async def test_an_exception_undoes_everything(database: ApiDatabase) -> None:
    async def fail() -> None:
        async with database.transaction(None) as connection:
            await connection.execute(insert(tenant).values(row("tenant_01jz0000000000000000000003")))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await seen(database, None) == [ONE, TWO]


async def test_a_failed_statement_cannot_be_swallowed_into_a_false_commit(database: ApiDatabase) -> None:
    async def swallow() -> None:
        async with database.transaction(None) as connection:
            with pytest.raises(IntegrityError):
                await connection.execute(insert(tenant).values(row(ONE)))

    with pytest.raises(RuntimeError, match="rolled back"):
        await swallow()
    assert await seen(database, None) == [ONE, TWO]


async def test_dead_pooled_connections_are_replaced_unnoticed(database: ApiDatabase, database_url: str) -> None:
    await asyncio.gather(*(seen(database, None) for _ in range(6)))
    end_connections(database_url)
    answers = await asyncio.gather(*(seen(database, ONE) for _ in range(6)))
    assert answers == [[ONE]] * 6


async def test_a_connection_lost_in_the_middle_is_said_so(database: ApiDatabase, database_url: str) -> None:
    async def interrupted() -> None:
        async with database.transaction(None) as connection:
            await connection.execute(insert(tenant).values(row("tenant_01jz0000000000000000000003")))
            end_connections(database_url)
            await connection.execute(select(func.now()))

    with pytest.raises(DatabaseUnavailable):
        await interrupted()
    assert await seen(database, None) == [ONE, TWO]


async def test_a_standby_that_is_not_promoted_yet_counts_as_away(database: ApiDatabase) -> None:
    async def write() -> None:
        async with database.transaction(None) as connection:
            await connection.execute(text("SET TRANSACTION READ ONLY"))
            await connection.execute(insert(tenant).values(row("tenant_01jz0000000000000000000003")))

    with pytest.raises(DatabaseUnavailable):
        await write()
    assert await seen(database, None) == [ONE, TWO]


async def test_the_last_words_of_a_dying_server_are_no_error_of_ours(database_url: str) -> None:
    """The goodbye comes unasked and is read before the connection ends."""
    async with dying_server(database_url) as (url, say_goodbye):
        opened = ApiDatabase(url, pool_size=1)

        async def interrupted() -> None:
            async with opened.transaction(None) as connection:
                await connection.execute(select(func.now()))
                await say_goodbye()

        with pytest.raises(DatabaseUnavailable):
            await interrupted()
        assert await seen(opened, None) == []
        await opened.close()


@contextlib.asynccontextmanager
async def dying_server(database_url: str) -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]]]]:
    """A way to the server (its URL) on which it can be made to say "57P02, crash shutdown" and not hang up yet."""
    to = urlsplit(database_url)
    clients: list[asyncio.StreamWriter] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        server_reader, server_writer = await asyncio.open_connection(to.hostname, to.port)
        await asyncio.gather(relay(reader, server_writer), relay(server_reader, writer))

    async def say_goodbye() -> None:
        fields = b"SFATAL\0VFATAL\0C57P02\0Mterminating connection because of crash\0\0"
        clients[-1].write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
        await asyncio.sleep(0.05)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        yield to._replace(netloc=f"{to.username}:{to.password}@127.0.0.1:{port}").geturl(), say_goodbye
        for client in clients:
            client.close()


async def test_a_statement_that_takes_too_long_is_ended(database: ApiDatabase) -> None:
    async def long() -> None:
        async with database.transaction(None) as connection:
            await connection.execute(text("SET LOCAL statement_timeout = 50"))
            await connection.execute(text("SELECT pg_sleep(30)"))

    with pytest.raises(DatabaseUnavailable):
        await long()
    assert await seen(database, ONE) == [ONE]


async def test_a_cancelled_request_leaves_a_usable_pool(database: ApiDatabase) -> None:
    async def long() -> None:
        async with database.transaction(None) as connection:
            started.set()
            await connection.execute(text("SELECT pg_sleep(30)"))

    for _ in range(5):
        started = asyncio.Event()
        task = asyncio.create_task(long())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.gather(*(seen(database, ONE) for _ in range(6))) == [[ONE]] * 6


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    nowhere = ApiDatabase(f"postgresql://gpulease@127.0.0.1:{free_port()}/gpulease")
    with pytest.raises(DatabaseUnavailable):
        await seen(nowhere, None)
    await nowhere.close()


@pytest.fixture(params=["compiled", "put together"])
def read(request: pytest.FixtureRequest, database: ApiDatabase) -> Read:
    """The two ways of reading in one round trip."""
    every = select(tenant.c.id).order_by(tenant.c.id)
    query = Query(every)

    async def ids(tenant_id: str | None) -> list[str]:
        compiled = request.param == "compiled"
        rows = await (database.fetch(tenant_id, query) if compiled else database.rows(tenant_id, every))
        return [row["id"] for row in rows]

    return ids


async def test_a_read_in_one_round_trip_sees_its_tenant_alone(read: Read) -> None:
    answers = await asyncio.gather(*(read(tenant_id) for tenant_id in [ONE, TWO, None] * 20))
    assert answers == [[ONE], [TWO], [ONE, TWO]] * 20


async def test_the_tenant_of_a_read_does_not_stay_on_the_connection(read: Read, database: ApiDatabase) -> None:
    await asyncio.gather(*(read(None) for _ in range(6)))
    bare = "SELECT current_setting('gpulease.tenant', true)"
    async with database._engine.connect() as connection:
        assert (await connection.execute(text(bare))).scalar_one() in {None, ""}
        assert (await connection.execute(select(func.count()).select_from(tenant))).scalar_one() == 0


async def test_a_read_survives_dead_pooled_connections(read: Read, database_url: str) -> None:
    await asyncio.gather(*(read(None) for _ in range(6)))
    end_connections(database_url)
    assert await asyncio.gather(*(read(ONE) for _ in range(6))) == [[ONE]] * 6


async def test_a_read_takes_no_false_tenant_either(read: Read) -> None:
    with pytest.raises(ValueError, match="not a tenant id"):
        await read("*")


async def test_the_tenant_is_set_before_any_row_is_looked_at_whatever_the_plan(database: ApiDatabase) -> None:
    joined = (
        select(tenant.c.id, func.count(quota.c.resource).label("n"))
        .join_from(tenant, quota, tenant.c.id == quota.c.tenant_id, isouter=True)
        .group_by(tenant.c.id)
        .order_by(tenant.c.id)
    )
    for method in ("nestloop", "hashjoin", "mergejoin", "seqscan", "indexscan", "bitmapscan"):
        async with database._engine.connect() as connection:
            await connection.execute(text(f"SET enable_{method} = off"))
            found = await connection.execute(within_tenant(joined), {TENANT: ONE})
            assert [row.id for row in found] == [ONE], method
            await connection.execute(text("RESET ALL"))
