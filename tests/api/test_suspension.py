"""What suspending a tenant does to its leases, and which calls it refuses."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_cost_owners import (
    COUNTED_FOR_THE_CALLER,
    LEASE,
    OF_LIMITS,
    OF_OPERATORS,
    OF_OTHERS,
    Call,
    Stage,
    staged,
)
from tests.security.routes import BODIES, GIVEN_UP

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
OTHER_HOOK = {"url": "https://93.184.216.34/other"}
OPERATORS_KEY = {"name": "for support", "role": "viewer"}


def at_the_only(path: str, send: Callable[[Caller, str], Awaitable[httpx.Response]]) -> Call:
    """A call about the only item of a list."""

    async def call(by: Caller, _: Stage) -> httpx.Response:
        [one] = (await by.get(path)).json()["items"]
        return await send(by, f"{path}/{one['id']}")

    return call


async def replay_delivery(by: Caller, hook: str) -> httpx.Response:
    [one] = (await by.get(f"{hook}/deliveries")).json()["items"]
    return await by.post(f"{hook}/deliveries/{one['id']}/replay")


HOOKS, SSH_KEYS, VOLUMES = "/v1/webhooks", "/v1/ssh-keys", "/v1/volumes"

CHANGES: dict[str, Call] = {
    "update_webhook": at_the_only(HOOKS, lambda by, hook: by.patch(hook, json=OTHER_HOOK)),
    "send_test_event": at_the_only(HOOKS, lambda by, hook: by.post(f"{hook}/test")),
    "create_volume": lambda by, _: by.post(VOLUMES, json={**BODIES["create_volume"], "name": "other"}),
    "create_ssh_key": lambda by, _: by.post(SSH_KEYS, json=BODIES["create_ssh_key"]),
    "update_ssh_key": at_the_only(SSH_KEYS, lambda by, key: by.patch(key, json={"default": True})),
    "update_budget": OF_LIMITS["update_budget"],
    "delete_budget": OF_LIMITS["delete_budget"],
}
"""Each call that changes what the tenant has, and neither ends nor restricts anything."""

GETS: dict[str, Call] = {
    **CHANGES,
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
    "release_leases": lambda by, _: by.post("/v1/leases/release", json={"all": True}),
    "disable_webhook": at_the_only(HOOKS, lambda by, hook: by.patch(hook, json={"enabled": False})),
    "delete_webhook": at_the_only(HOOKS, lambda by, hook: by.delete(hook)),
    "rotate_webhook_secret": at_the_only(HOOKS, lambda by, hook: by.post(f"{hook}/rotate-secret")),
    "delete_volume": at_the_only(VOLUMES, lambda by, volume: by.delete(volume)),
    "delete_ssh_key": at_the_only(SSH_KEYS, lambda by, key: by.delete(key)),
    "create_budget": lambda by, _: by.post("/v1/budgets", json=BODIES["create_budget"]),
}

READS: dict[str, Call] = {
    "replay_webhook_delivery": at_the_only(HOOKS, replay_delivery),
    "create_sizing": lambda by, _: by.post("/v1/sizings", json=BODIES["create_sizing"]),
}

ASKS: dict[str, Call] = {
    "plan_lease": lambda by, _: by.post("/v1/leases/plan", json=LEASE),
    "plan_group": lambda by, _: by.post("/v1/groups/plan", json={"name": "more", "size": 2, "lease": LEASE}),
    "create_quote": lambda by, _: by.post("/v1/quotes", json=LEASE),
}
"""Calls that answer as the creation would."""

PARTS = {
    "lower_max_cost": "update_lease",
    "rename_lease": "update_lease",
    "shrink_group": "resize_group",
    "disable_webhook": "update_webhook",
}
"""Calls of operations that can also get more."""

OF_VMS = {"report_host_keys", "report_proof", "report_gpu_samples", "report_group_check"}

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

OF_THE_DISK = {"create_volume"}
"""It has a quota of its own, and here no price: `tests/api/test_volumes.py` refuses it for both."""


def test_every_call_that_can_raise_a_cost_is_listed() -> None:
    assert {*OF_OTHERS, *COUNTED_FOR_THE_CALLER} <= set(GETS)
    assert {*OF_OTHERS, *COUNTED_FOR_THE_CALLER} == COUNTED | WITHIN_WHAT_IS_HELD | OF_THE_DISK


def test_every_operation_that_changes_anything_is_listed(spec: dict[str, Any]) -> None:
    methods = ("post", "put", "patch", "delete")
    changing = {
        one["operationId"] for path in spec["paths"].values() for method, one in path.items() if method in methods
    }
    listed = {*GETS, *(PARTS.get(way, way) for way in ENDS), *READS, *ASKS, *OF_OPERATORS, *OF_VMS}
    assert listed == changing, "say whether a suspended tenant may call a new operation"
    assert not set(GETS) & {*ENDS, *READS}, "listed twice"


@pytest.fixture
async def stage(alice: Caller, database_url: str) -> Stage:
    """A running lease, a running group, and one of each of what a tenant may change."""
    fleet = Fleet(database_url)
    fleet.catalogue()
    body = {"scope": {"kind": "tenant"}, "period": "month", "amount": "800.00"}
    budget = await alice.post("/v1/budgets", json=body)
    volume = await alice.post(VOLUMES, json=BODIES["create_volume"])
    assert volume.status_code == 201, volume.text
    key = await alice.post(SSH_KEYS, json={**BODIES["create_ssh_key"], "name": "first", "default": False})
    hook = await alice.post(HOOKS, json=HOOK)
    test = await alice.post(f"{HOOKS}/{hook.json()['id']}/test")
    assert [one.status_code for one in (budget, key, hook, test)] == [201, 201, 201, 202]
    fleet.run(GIVEN_UP)
    staged_ = await staged(alice, f"/v1/budgets/{budget.json()['id']}")
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


def in_turn(ways: Iterable[str]) -> list[str]:
    """In an order in which all succeed: what there is one of is changed before another one is made, and deleted last."""
    return sorted(ways, key=lambda way: (way.startswith("delete"), way.startswith("create")))


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
    change: Callable[[Caller, Caller], Awaitable[None]],
    refused: set[str],
    code: str,
) -> None:
    await change(operator, alice)
    for way in refused:
        answer = await GETS[way](alice, stage)
        assert not answer.is_success, way
        assert answer.json()["code"] == code, way
    for way in in_turn(GETS.keys() - refused):
        answer = await GETS[way](alice, stage)
        assert answer.is_success, (way, answer.text)


async def test_a_suspended_tenant_may_still_end_restrict_and_read(
    operator: Caller, alice: Caller, stage: Stage
) -> None:
    await _suspend(operator, alice)
    for way in in_turn([*READS, *ENDS]):
        answer = await {**ENDS, **READS}[way](alice, stage)
        assert answer.is_success, (way, answer.text)


async def test_a_suspended_tenant_gets_no_plan(operator: Caller, alice: Caller, stage: Stage) -> None:
    await _suspend(operator, alice)
    for way, ask in ASKS.items():
        assert (await ask(alice, stage)).json()["code"] == "tenant_suspended", way


async def test_operators_change_what_a_suspended_tenant_has(operator: Caller, alice: Caller, stage: Stage) -> None:
    await _suspend(operator, alice)
    for way in ("update_webhook", "send_test_event", "update_ssh_key", "update_budget"):
        answer = await CHANGES[way](operator, stage)
        assert answer.is_success, (way, answer.text)


async def test_operators_create_keys_for_a_suspended_tenant(operator: Caller, alice: Caller) -> None:
    await _suspend(operator, alice)
    assert (await operator.post(f"/v1/tenants/{alice.tenant_id}/keys", json=OPERATORS_KEY)).status_code == 201
