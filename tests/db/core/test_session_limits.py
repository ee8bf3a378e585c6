"""A host that vanishes, or stands still inside a transaction, keeps no row locked for longer than the session's limits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import DBAPIError

from app.db.core import engine
from app.db.core.api_errors import DatabaseUnavailable
from app.db.core.session_limits import LIBPQ_PARAMETERS, SERVER_SETTINGS
from app.db.schema.tables import quota
from app.prerequisites import ensure_operator_key
from app.settings import load_settings
from tests.api.conftest import Caller, new_tenant, serving
from tests.api.fleet import Fleet
from workers.runtime.database import WorkerDatabase, is_outage

IN_FORCE = text(f"SELECT {', '.join(f'current_setting({name!r}) AS {name}' for name in SERVER_SETTINGS)}")
SHORT = 0.5
SESSION = text("SELECT pg_backend_pid() AS pid")


def test_workers_sessions_have_the_limits_at_both_ends(database_url: str) -> None:
    database = WorkerDatabase(database_url, pool_size=1)
    with database.begin() as connection:
        assert dict(connection.execute(IN_FORCE).mappings().one()) == SERVER_SETTINGS
        driver: Any = connection.connection.driver_connection
        client = driver.info.get_parameters()
    database.close()
    assert {name: int(client[name]) for name in LIBPQ_PARAMETERS} == LIBPQ_PARAMETERS


async def test_the_apis_sessions_have_the_limits(database_url: str) -> None:
    database = engine.ApiDatabase(database_url, pool_size=1)
    async with database.transaction(None) as connection:
        assert dict((await connection.execute(IN_FORCE)).mappings().one()) == SERVER_SETTINGS
    await database.close()


@pytest.fixture
async def alice(database_url: str, broker_url: str) -> AsyncIterator[Caller]:
    async with serving(load_settings(database_url=database_url, broker_url=broker_url)) as app:
        Fleet(database_url).catalogue()
        yield await new_tenant(Caller(app, ensure_operator_key(database_url, None)), "alice", gpus=8)


async def test_a_worker_that_stands_still_with_a_tenants_quota_does_not_stop_the_tenants_creates(
    database_url: str, alice: Caller
) -> None:
    database = WorkerDatabase(database_url, pool_size=1, idle_in_transaction_seconds=SHORT)

    async def stand_still() -> None:
        with database.begin() as connection:
            connection.execute(update(quota).where(quota.c.tenant_id == alice.tenant_id).values(used=quota.c.used))
            created = await alice.post("/v1/leases", json={"gpu": {"model": "A10G", "count": 1}, "ttl_seconds": 3600})
            assert created.status_code == 201, created.text
            connection.execute(SESSION)

    with pytest.raises(DBAPIError) as ended:
        await stand_still()
    assert is_outage(ended.value)
    database.close()


async def test_a_transaction_of_the_api_that_stood_still_is_an_outage_and_the_next_one_goes_through(
    database_url: str,
) -> None:
    database = engine.ApiDatabase(database_url, pool_size=1, idle_in_transaction_seconds=SHORT)
    pids = []

    async def stand_still() -> None:
        async with database.transaction(None) as connection:
            pids.append((await connection.execute(SESSION)).scalar_one())
            await asyncio.to_thread(wait_until_ended, database_url, pids[0])
            await connection.execute(SESSION)

    with pytest.raises(DatabaseUnavailable):
        await stand_still()
    async with database.transaction(None) as connection:
        assert (await connection.execute(SESSION)).scalar_one() != pids[0]
    await database.close()


def wait_until_ended(database_url: str, pid: int) -> None:
    """The server has ended the session."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)"
        for _ in range(200):
            row = connection.execute(gone, [pid]).fetchone()
            if row == (True,):
                return
            connection.execute("SELECT pg_sleep(0.05)")
    raise AssertionError(f"session {pid} was not ended")
