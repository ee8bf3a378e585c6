"""Health, as load balancers see it."""

import time

import psycopg
import pytest
from fastapi import FastAPI

from app.prerequisites import schema_revisions
from app.services.container import Services
from tests.api.conftest import Caller
from tests.harness.databases import end_connections, hang_up

FINE = {"database": "ok", "schema": "ok", "session": "ok", "clock": "ok"}


async def test_a_process_that_answers_is_alive(anonymous: Caller) -> None:
    assert (await anonymous.get("/livez")).json() == {"status": "ok"}


async def test_missing_workers_are_a_warning_and_not_a_failure(anonymous: Caller, database_url: str) -> None:
    found = await anonymous.get("/readyz")
    assert found.status_code == 200
    assert found.json()["checks"] == FINE | {"worker": "missing", "inventory": "missing"}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO worker_heartbeat (name, kind) VALUES ('w1', 'worker'), ('i1', 'inventory')")
    assert (await anonymous.get("/readyz")).json() == {
        "ready": True,
        "checks": FINE | {"worker": "ok", "inventory": "ok"},
        "warnings": [],
    }


async def test_an_account_at_azure_needs_the_dead_man_switch_heard_of(
    anonymous: Caller, operator: Caller, database_url: str
) -> None:
    def account(config: str) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DELETE FROM account")
            connection.execute("INSERT INTO account (name, provider, config) VALUES ('a', 'azure', %s)", [config])

    account('{"endpoint_url": "http://127.0.0.1:8010"}')
    assert "deadman" not in (await anonymous.get("/readyz")).json()["checks"], "a simulated cloud costs nothing"
    account("{}")
    found = (await anonymous.get("/readyz")).json()
    assert (found["ready"], found["checks"]["deadman"]) == (True, "missing")
    assert any("dead-man switch" in warning for warning in found["warnings"])
    for _ in range(2):
        assert (await operator.post("/v1/ops/deadman")).status_code == 204
    found = (await anonymous.get("/readyz")).json()
    assert found["checks"]["deadman"] == "ok"
    assert not any("dead-man switch" in warning for warning in found["warnings"])
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE worker_heartbeat SET seen_at = now() - interval '16 minutes'")
    assert (await anonymous.get("/readyz")).json()["checks"]["deadman"] == "missing"


@pytest.mark.parametrize(("wrong", "words"), [(-1200, "1200 s behind"), (1200, "1200 s ahead of")])
async def test_a_host_with_a_wrong_clock_is_ready_with_a_warning(
    anonymous: Caller, monkeypatch: pytest.MonkeyPatch, wrong: int, words: str
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong)
    found = (await anonymous.get("/readyz")).json()
    assert (found["ready"], found["checks"]["clock"]) == (True, "wrong")
    assert any(words in warning for warning in found["warnings"])


async def test_another_schema_is_not_ready(anonymous: Caller, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DELETE FROM alembic_version")
        try:
            found = await anonymous.get("/readyz")
        finally:
            connection.execute("INSERT INTO alembic_version VALUES (%s)", [schema_revisions().head])
    assert found.status_code == 503
    assert "has no schema" in found.json()["checks"]["schema"]


async def test_without_a_database_the_process_is_alive_and_not_ready(
    app: FastAPI, anonymous: Caller, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT 0'.encode())
        hang_up(connection)
        found = await anonymous.get("/readyz")
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT -1'.encode())
    assert (found.status_code, found.json()["checks"]["database"]) == (503, "unavailable")
    assert (await anonymous.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("RESET ROLE", "not as gpulease_api"),
        ("SET gpulease.connection = 'of another client'", "pool_mode = session"),
        ("DISCARD ALL", "pool_mode = session"),
    ],
)
async def test_a_connection_that_lost_its_role_or_its_session_is_not_ready(
    app: FastAPI, anonymous: Caller, database_url: str, change: str, complaint: str
) -> None:
    """As behind a pooler that gives one client's session to another."""
    end_connections(database_url)  # a new one has no prepared statement that it could miss
    services: Services = app.state.services
    async with services.health._database.transaction(None) as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        await raw.execute("COMMIT")
        await raw.execute(change)
        await raw.execute("BEGIN")
    found = await anonymous.get("/readyz")
    assert found.status_code == 503
    assert complaint in found.json()["checks"]["session"]
