"""A read-only database, as after a failover in which the pool led to the standby or to the demoted primary."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.harness.databases import Databases, end_connections

LEASE = {"gpu": {"model": "A10G", "count": 1}, "ttl_seconds": 3600}


@pytest.fixture(scope="module")
def databases(postgres_server: str) -> Iterator[Databases]:
    """A database whose connections no other test has opened."""
    with closing(Databases(postgres_server)) as made:
        yield made


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    with databases.fresh() as url:
        yield url


async def test_it_is_not_ready_and_the_first_request_afterwards_is_served(
    alice: Caller, anonymous: Caller, database_url: str, databases: Databases
) -> None:
    Fleet(database_url).catalogue()
    name = database_url.rpartition("/")[2]
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
        try:
            end_connections(database_url)
            refused = await alice.post("/v1/leases", json=LEASE)
            assert (await alice.get("/v1/leases")).status_code == 200
            found = await anonymous.get("/readyz")
            assert (await alice.get("/v1/leases")).status_code == 200
        finally:
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())
    assert (refused.status_code, refused.json()["code"]) == (503, "database_unavailable")
    assert (found.status_code, found.json()["checks"]["database"]) == (503, "read-only")
    assert (await alice.post("/v1/leases", json=LEASE)).status_code == 201
    assert (await anonymous.get("/readyz")).status_code == 200
