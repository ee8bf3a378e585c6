"""The trial sees it when leases wait for a process that is gone."""

from collections.abc import Iterator

import psycopg
import pytest

from app.db.leases.process_locks import _CLASS, claim_id
from tests.deployment.claims import Claims
from tests.harness.databases import Databases

LEASE = "lease_01jz0000000000000000000001"
NUMBER = 7


@pytest.fixture
def owner(databases: Databases, database_url: str) -> Iterator[psycopg.Connection]:
    """A superuser, in whose database one lease is due."""
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES ('tenant_1', 'one', 3600, 7200)"
        )
        connection.execute(
            "INSERT INTO lease (id, tenant_id, name, request, minimum_claim, expires_at, wait_until, next_due)"
            " VALUES (%s, 'tenant_1', 'n', '{}', '{}', now(), now(), now())",
            [LEASE],
        )
        yield connection


@pytest.fixture
def claims(databases: Databases) -> Iterator[Claims]:
    opened = Claims(databases.owner_url)
    yield opened
    opened.close()


def hold(owner: psycopg.Connection, number: int | None) -> None:
    owner.execute("UPDATE lease SET claim_id = %s, held_until = now() + interval '90 s'", [claim_id(number)])


def test_a_lease_is_stranded_while_its_process_shows_no_life(owner: psycopg.Connection, claims: Claims) -> None:
    assert claims.stranded() == []
    hold(owner, NUMBER)
    assert claims.stranded() == [LEASE]
    assert claims.seconds_until_none_is_stranded(within=0.5) == 0.5
    owner.execute("SELECT pg_advisory_lock(%s, %s)", [_CLASS, NUMBER])
    assert claims.stranded() == []
    assert claims.held_by([NUMBER]) == [LEASE]
    assert claims.seconds_until_none_is_stranded(within=60) == 0.0


def test_a_claim_of_nobody_in_particular_strands_a_lease(owner: psycopg.Connection, claims: Claims) -> None:
    hold(owner, None)
    assert claims.stranded() == [LEASE]


def test_a_lease_goes_on_when_somebody_else_holds_it(owner: psycopg.Connection, claims: Claims) -> None:
    hold(owner, NUMBER)
    assert claims.seconds_until_all_go_on([LEASE], [NUMBER], 0.0, within=0.3) == {LEASE: 0.3}
    hold(owner, NUMBER + 1)
    assert claims.seconds_until_all_go_on([LEASE], [NUMBER], 0.0, within=30)[LEASE] > 0.3
