"""A key with a budget raises no cost that its budget does not count: every operation that changes anything is listed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

LEASE: dict[str, Any] = {"gpu": {"model": "A10G", "count": 1}, "market": "on_demand", "ttl_seconds": 3600}
HOUR: dict[str, Any] = {"extend_by_seconds": 3600}
AMOUNT = Decimal("1.50")
"""Enough for one lease of an hour at 1.006 USD, and for no second one."""


@dataclass(frozen=True)
class Stage:
    """What the calls are about: a lease, a group, a key and a budget of `owner`."""

    owner: Caller
    lease: str
    group: str
    key: str
    budget: str

    @property
    def keys(self) -> str:
        return f"/v1/tenants/{self.owner.tenant_id}/keys"


Call = Callable[[Caller, Stage], Awaitable[httpx.Response]]

OF_OTHERS: dict[str, Call] = {
    "extend_lease": lambda by, on: by.post(f"{on.lease}/extend", json=HOUR),
    "update_lease": lambda by, on: by.patch(on.lease, json={"max_cost": "40.00"}),
    "keep_lease": lambda by, on: by.post(f"{on.lease}/keep", json={"seconds": 3600}),
    "extend_group": lambda by, on: by.post(f"{on.group}/extend", json=HOUR),
    "resize_group": lambda by, on: by.patch(on.group, json={"size": 3}),
}
"""Operations that raise the cost of a lease or group: allowed for what the key created itself."""

OF_LIMITS: dict[str, Call] = {
    "create_key": lambda by, on: by.post(on.keys, json={"name": "more", "role": "member"}),
    "rotate_key": lambda by, on: by.post(f"{on.key}/rotate", json={}),
    "update_budget": lambda by, on: by.patch(on.budget, json={"amount": "900.00"}),
    "delete_budget": lambda by, on: by.delete(on.budget),
}
"""Operations with which an admin's key could spend more than its budget."""

COUNTED_FOR_THE_CALLER = {"create_lease", "create_group", "create_volume"}

OF_OPERATORS = {
    "create_tenant",
    "update_tenant",
    "set_quotas",
    "change_quotas",
    "set_idle_floor",
    "delete_idle_floor",
    "end_orphan",
    "adopt_orphans",
    "set_launch_stop",
    "record_deadman_heartbeat",
    "resume_installation",
    "cordon_account",
    "request_account_checks",
}
"""No key of a tenant may call them, and operators have no budgets."""

RAISES_NOTHING = {
    "revoke_key",
    "delete_volume",
    "create_ssh_key",
    "update_ssh_key",
    "delete_ssh_key",
    "create_budget",
    "create_sizing",
    "plan_lease",
    "plan_group",
    "create_quote",
    "release_leases",
    "release_lease",
    "reboot_lease",
    "release_group",
    "create_webhook",
    "update_webhook",
    "delete_webhook",
    "rotate_webhook_secret",
    "send_test_event",
    "replay_webhook_delivery",
    "report_host_keys",
    "report_proof",
    "report_gpu_samples",
    "report_group_check",
}
"""They end or describe leases, add limits, or move no end. A reboot stays within the term that admission reserved."""


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def with_budget(alice: Caller) -> tuple[Caller, str]:
    """An admin's key with a budget, and the path of its budget."""
    body = {"name": "agent", "role": "admin", "budget": str(AMOUNT)}
    made = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json=body)
    assert made.status_code == 201, made.text
    [budget] = (await alice.get("/v1/budgets")).json()["items"]
    return Caller(alice.app, made.json()["secret"], alice.tenant_id), f"/v1/budgets/{budget['id']}"


async def staged(owner: Caller, budget: str, *, by: Caller | None = None) -> Stage:
    """`by`: who creates the lease and the group. Default: the owner."""
    creator = by or owner
    lease = await creator.post("/v1/leases", json={**LEASE, "max_cost": "0.50"})
    group = await creator.post("/v1/groups", json={"name": "g", "size": 2, "lease": {**LEASE, "max_cost": "0.20"}})
    key = await owner.post(f"/v1/tenants/{owner.tenant_id}/keys", json={"name": "other", "role": "member"})
    assert {answer.status_code for answer in (lease, group, key)} == {201}
    return Stage(
        owner=owner,
        lease=f"/v1/leases/{lease.json()['id']}",
        group=f"/v1/groups/{group.json()['id']}",
        key=f"/v1/keys/{key.json()['id']}",
        budget=budget,
    )


async def state(owner: Caller, stage: Stage) -> list[Any]:
    """What a refused call must leave as it was."""
    found = [(await owner.get(path)).json() for path in (stage.lease, stage.group, stage.budget)]
    lease, group, budget = found
    shown = [
        lease["expires_at"],
        lease["max_cost"],
        lease["version"],
        group["size"],
        group["expires_at"],
        group["version"],
    ]
    return [*shown, budget["amount"], (await owner.get(stage.keys)).json()["total_count"]]


def test_every_operation_that_changes_anything_is_listed(spec: dict[str, Any]) -> None:
    methods = ("post", "put", "patch", "delete")
    changing = {
        one["operationId"] for path in spec["paths"].values() for method, one in path.items() if method in methods
    }
    lists = [set(OF_OTHERS), set(OF_LIMITS), COUNTED_FOR_THE_CALLER, OF_OPERATORS, RAISES_NOTHING]
    assert sum(map(len, lists)) == len(set().union(*lists)), "listed twice"
    assert set().union(*lists) == changing, "say whether a new operation can raise a cost that another key pays"


async def test_a_key_with_a_budget_raises_no_cost_that_another_key_pays(alice: Caller) -> None:
    agent, budget = await with_budget(alice)
    stage = await staged(alice, budget)
    before = await state(alice, stage)
    for operation, call in {**OF_OTHERS, **OF_LIMITS}.items():
        answer = await call(agent, stage)
        assert (answer.status_code, answer.json()["code"]) == (403, "key_has_budget"), (operation, answer.text)
        assert await state(alice, stage) == before, operation


async def test_a_key_without_a_budget_may(alice: Caller) -> None:
    _, budget = await with_budget(alice)
    stage = await staged(await alice.member("admin"), budget)
    for operation, call in {**OF_OTHERS, **OF_LIMITS}.items():
        answer = await call(alice, stage)
        assert answer.status_code in {200, 201, 204}, (operation, answer.text)


@pytest.mark.parametrize("operation", OF_OTHERS)
async def test_what_a_key_adds_to_its_own_leases_stays_within_its_budget(alice: Caller, operation: str) -> None:
    agent, budget = await with_budget(alice)
    stage = await staged(alice, budget, by=agent)
    answers = [await OF_OTHERS[operation](agent, stage) for _ in range(3)]
    assert {answer.status_code for answer in answers} <= {200, 409}
    refused = {answer.json()["code"] for answer in answers if answer.status_code == 409}
    assert refused <= {"budget_exceeded"}
    found = (await alice.get(budget)).json()
    assert Decimal(found["spent"]) + Decimal(found["committed"]) <= AMOUNT


async def test_a_key_with_a_budget_may_lower_what_others_spend(alice: Caller) -> None:
    agent, budget = await with_budget(alice)
    stage = await staged(alice, budget)
    assert (await agent.patch(stage.lease, json={"max_cost": "0.30"})).status_code == 200
    assert (await agent.patch(stage.group, json={"size": 1})).status_code == 200
    assert (await agent.delete(stage.lease)).status_code == 202


async def test_a_budget_that_only_notifies_limits_no_key(alice: Caller) -> None:
    agent, budget = await with_budget(alice)
    stage = await staged(alice, budget)
    await alice.patch(budget, json={"when_exceeded": "notify"})
    assert (await agent.post(f"{stage.lease}/extend", json=HOUR)).status_code == 200
