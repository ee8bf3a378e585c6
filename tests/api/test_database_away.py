"""Without a database every answer says so: 503 to callers and load balancers, and `gpulease_database_up` 0 to Prometheus."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
import pytest
from fastapi import FastAPI
from psycopg import sql

from app.db.core.ids import new_id
from app.domain.ids import KeyId
from app.services.key_format import generate
from app.settings import load_settings
from tests.api.conftest import Caller, serving
from tests.harness.databases import Databases
from tests.harness.refusing_server import refusing_server

ENDS_A_LOGIN = (
    *("08000", "08001", "08003", "08004", "08006", "08P01"),
    *("28000", "28P01", "3D000", "42501"),
    *("53000", "53100", "53200", "53300", "53400"),
    *("55000", "55006", "57P01", "57P02", "57P03", "57P04", "57P05", "58000", "58030", "XX000"),
)
REFUSED_LOGINS: dict[str, tuple[LiteralString, LiteralString]] = {
    "28000": ("ALTER ROLE {} NOLOGIN", "ALTER ROLE {} LOGIN"),
    "42501": ("REVOKE CONNECT ON DATABASE {} FROM PUBLIC, {}", "GRANT CONNECT ON DATABASE {} TO PUBLIC, {}"),
    "53300": ("ALTER DATABASE {} CONNECTION LIMIT 0", "ALTER DATABASE {} CONNECTION LIMIT -1"),
    "55000": ("ALTER DATABASE {} ALLOW_CONNECTIONS false", "ALTER DATABASE {} ALLOW_CONNECTIONS true"),
}
"""By SQLSTATE: what a superuser does, and undoes. The test's login has the name of its database."""


async def say_that_it_is_away(caller: Caller) -> None:
    leases = await caller.get("/v1/leases")
    assert (leases.status_code, leases.json()["code"]) == (503, "database_unavailable")
    ready = await caller.get("/readyz")
    assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "unavailable")
    metrics = await caller.get("/metrics")
    assert metrics.status_code == 200
    assert "gpulease_database_up 0.0" in metrics.text.splitlines()


@pytest.mark.parametrize("state", ENDS_A_LOGIN)
async def test_a_server_that_refuses_each_login_is_away(broker_url: str, state: str) -> None:
    key = generate(KeyId(new_id("key"))).text
    async with (
        refusing_server(state) as url,
        serving(load_settings(database_url=url, broker_url=broker_url)) as app,
        Caller(app, key) as caller,
    ):
        await say_that_it_is_away(caller)


@contextmanager
def refused(databases: Databases, database_url: str, state: str) -> Iterator[None]:
    """PostgreSQL ends the sessions, as a restart does, and refuses new ones with `state`."""
    name = sql.Identifier(database_url.rpartition("/")[2])
    with psycopg.connect(databases.owner_url.rpartition("/")[0] + "/postgres", autocommit=True) as admin:
        on, off = (sql.SQL(one).format(*[name] * one.count("{}")) for one in REFUSED_LOGINS[state])
        admin.execute(on)
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [database_url.rpartition("/")[2]],
        )
        try:
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(database_url)
            yield
        finally:
            admin.execute(off)


@pytest.mark.parametrize("state", REFUSED_LOGINS)
async def test_a_login_that_postgresql_no_longer_accepts_is_away_until_it_does(
    app: FastAPI, operator: Caller, databases: Databases, database_url: str, state: str
) -> None:
    assert (await operator.get("/v1/ops/summary")).status_code == 200
    with refused(databases, database_url, state):
        await say_that_it_is_away(operator)
    assert (await operator.get("/readyz")).status_code == 200


async def test_a_statement_that_fails_is_no_error_of_the_health_endpoints(
    app: FastAPI, operator: Caller, databases: Databases, database_url: str
) -> None:
    """As on a schema that an operator changed by hand: Prometheus and load balancers learn of it."""
    with psycopg.connect(databases.owner_url, autocommit=True) as admin:
        admin.execute("REVOKE SELECT ON worker_heartbeat FROM gpulease_api")
        try:
            ready, metrics = await operator.get("/readyz"), await operator.get("/metrics")
        finally:
            admin.execute("GRANT SELECT ON worker_heartbeat TO gpulease_api")
    assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "statement failed")
    assert metrics.status_code == 200
    assert "gpulease_database_up 0.0" in metrics.text.splitlines()
