"""What suspending a tenant does to its leases, and which calls it refuses."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_cost_owners import COUNTED_FOR_THE_CALLER, LEASE, OF_OTHERS, Call, Stage, staged

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


# --- what a tenant in each state may still get -------------------------------------------------------------

HOOK = {"url": "https://93.184.216.34/hook"}
OPERATORS_KEY = {"name": "for support", "role": "viewer"}

GETS: dict[str, Call] = {
    **OF_OTHERS,
    "create_lease": lambda by, _: by.post("/v1/leases", json=LEASE),
    "create_group": lambda by, _: by.post("/v1/groups", json={"name": "more", "size": 2, "lease": LEASE}),
    "create_key": lambda by, on: by.post(on.keys, json={"name": "more", "role": "member"}),
    "create_webhook": lambda by, _: by.post("/v1/webhooks", json=HOOK),
}
"""Each call with which a tenant gets a VM, more time for one, or another way in or out."""

ENDS: dict[str, Call] = {
    "lower_max_cost": lambda by, on: by.patch(on.lease, json={"max_cost": "1.10"}),
    "rename_lease": lambda by, on: by.patch(on.lease, json={"name": "renamed"}),
    "reboot_lease": lambda by, on: by.post(f"{on.lease}/reboot"),
    "release_lease": lambda by, on: by.delete(on.lease),
    "shrink_group": lambda by, on: by.patch(on.group, json={"size": 1}),
    "release_group": lambda by, on: by.delete(on.group),
    "rotate_key": lambda by, on: by.post(f"{on.key}/rotate", json={}),
    "revoke_key": lambda by, on: by.delete(on.key),
}

POOL = {
    "account": "main",
    "region": "us-east-1",
    "zone": None,
    "instance_type": "g5.xlarge",
    "market": "on_demand",
}

FULL = {"create_lease", "create_group", "resize_group"}
COUNTED = {*FULL, "extend_group", "update_lease"}
WITHIN_WHAT_IS_HELD = {"keep_lease", "extend_lease"}
"""Admission held the whole term, and the lease's spend cap bounds an extension of it."""


def test_every_call_that_can_raise_a_cost_is_listed() -> None:
    assert set(GETS) == {*OF_OTHERS, *COUNTED_FOR_THE_CALLER, "create_key", "create_webhook"}
    assert {*OF_OTHERS, *COUNTED_FOR_THE_CALLER} == COUNTED | WITHIN_WHAT_IS_HELD


@pytest.fixture
async def stage(alice: Caller, database_url: str) -> Stage:
    """A running lease and a running group."""
    fleet = Fleet(database_url)
    fleet.catalogue()
    staged_ = await staged(alice, "")
    fleet.run("UPDATE lease_group SET state = 'active', pool = %s", Jsonb(POOL))
    fleet.run("UPDATE lease SET group_pool = %s WHERE group_id IS NOT NULL", Jsonb(POOL))
    for (lease_id,) in [tuple(row.values()) for row in fleet.run("SELECT id FROM lease")]:
        fleet.activate(lease_id)
    assert (await alice.patch(staged_.lease, json={"max_cost": "1.20"})).is_success
    return staged_


async def _suspend(operator: Caller, alice: Caller) -> None:
    assert (await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"status": "suspended"})).is_success


async def _lower_quota(operator: Caller, alice: Caller) -> None:
    lowered = await operator.patch(
        f"/v1/tenants/{alice.tenant_id}/quotas", json={"limits": [{"resource": "gpus", "limit": 1}]}
    )
    assert lowered.is_success, lowered.text


async def _exceed_budget(operator: Caller, alice: Caller) -> None:
    body = {"scope": {"kind": "tenant"}, "period": "month", "amount": "0.01", "when_exceeded": "refuse"}
    made = await alice.post("/v1/budgets", json=body)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize("way", GETS)
@pytest.mark.parametrize(
    ("change", "refused", "code"),
    [
        (_suspend, set(GETS), "tenant_suspended"),
        (_lower_quota, FULL, "quota_exceeded"),
        (_exceed_budget, COUNTED, "budget_exceeded"),
    ],
)
async def test_each_way_to_get_more_asks_the_state_of_the_tenant(
    operator: Caller,
    alice: Caller,
    stage: Stage,
    way: str,
    change: Callable[[Caller, Caller], Awaitable[None]],
    refused: set[str],
    code: str,
) -> None:
    await change(operator, alice)
    answer = await GETS[way](alice, stage)
    assert answer.is_success == (way not in refused), answer.text
    assert way not in refused or answer.json()["code"] == code


@pytest.mark.parametrize("way", ENDS)
async def test_a_suspended_tenant_may_still_end_and_restrict(
    operator: Caller, alice: Caller, stage: Stage, way: str
) -> None:
    await _suspend(operator, alice)
    answer = await ENDS[way](alice, stage)
    assert answer.is_success, answer.text


async def test_operators_create_keys_for_a_suspended_tenant(operator: Caller, alice: Caller) -> None:
    await _suspend(operator, alice)
    assert (await operator.post(f"/v1/tenants/{alice.tenant_id}/keys", json=OPERATORS_KEY)).status_code == 201
