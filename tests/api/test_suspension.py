"""What suspending a tenant does to its leases."""

from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.api.conftest import Caller

READY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def states(database_url: str, alice: Caller) -> list[tuple[str, str]]:
    """A lease of Alice's in each of three states: (id, state)."""
    made = [(f"lease_01jz000000000000000000000{n}", state) for n, state in enumerate(["queued", "booting", "active"])]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpulease_worker")
        for lease_id, state in made:
            connection.execute(
                "INSERT INTO lease (id, tenant_id, name, request, minimum_claim, state, ready_at, expires_at, wait_until)"
                " VALUES (%s, %s, 'l', %s, %s, %s, %s, now() + interval '1 hour', now())",
                [lease_id, alice.tenant_id, Jsonb({}), Jsonb({}), state, READY if state == "active" else None],
            )
    return made


def now(database_url: str) -> dict[str, tuple[str, str | None]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpulease_worker")
        rows = connection.execute("SELECT id, state, reason->>'code' FROM lease").fetchall()
    return {lease_id: (state, code) for lease_id, state, code in rows}


@pytest.mark.parametrize(
    ("end_leases", "expected"),
    [(False, ["releasing", "booting", "active"]), (True, ["releasing", "releasing", "releasing"])],
)
async def test_what_is_queued_ends_and_what_runs_when_asked(
    operator: Caller,
    alice: Caller,
    states: list[tuple[str, str]],
    database_url: str,
    expected: list[str],
    *,
    end_leases: bool,
) -> None:
    body = {"status": "suspended", "end_leases": end_leases}
    answer = await operator.patch(f"/v1/tenants/{alice.tenant_id}", json=body)
    assert answer.json()["status"] == "suspended"
    found = now(database_url)
    assert [found[lease_id][0] for lease_id, _ in states] == expected
    assert {code for state, code in found.values() if state == "releasing"} == {"tenant_suspended"}
    [entry] = [one for one in (await operator.get("/v1/audit")).json()["items"] if one["action"] == "tenant.change"]
    assert entry["after"]["leases_ended"] == expected.count("releasing")


async def test_another_change_of_an_active_tenant_ends_nothing(
    operator: Caller, alice: Caller, states: list[tuple[str, str]], database_url: str
) -> None:
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"name": "other", "end_leases": True})
    assert {lease_id: state for lease_id, (state, _) in now(database_url).items()} == dict(states)
