"""Whatever an operator changes stands in the audit trail: every route that changes anything is tried."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.routing import APIRoute

from app.api.app import routed
from app.api.http.routing import SecuredRoute
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.security.routes import BODIES

TOLD_NOWHERE = {"plan_lease", "plan_group", "create_quote", "create_sizing", "record_deadman_heartbeat"}
"""Three ask with a body and change no resource; the fourth is a program's sign of life, every minute."""

CHANGES = {
    route.name: route
    for route in routed().routes
    if isinstance(route, APIRoute) and isinstance(route, SecuredRoute) and (route.methods or set()) - {"GET"}
}
ORPHAN = """
    INSERT INTO orphan (id, account, region, instance_id, provider, zone, instance_type, market, cause, tags)
    VALUES ('orphan_01jz0000000000000000000000', 'main', 'us-east-1', 'i-1', 'aws', 'us-east-1a', 'g5.xlarge', 'on_demand', 'lost_row', '{}')
"""
HOLD = """UPDATE installation SET hold = '{"reason": "another timeline", "since": "2026-01-01T00:00:00Z"}'"""
FLOOR = """UPDATE tenant SET idle_floor = '{"after_seconds": 3600, "action": "end", "max_keep_seconds": null}'"""

GROUP: dict[str, Any] = {"name": "train", "size": 2, "lease": {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}}
BUDGET: dict[str, Any] = {"scope": {"kind": "tenant"}, "period": "month", "amount": "100.00"}
HOOK = "https://93.184.216.34/hook"
TRIED = "UPDATE webhook_delivery SET state = 'given_up', tries = 1, ended_at = now(), next_try_at = NULL"


@dataclass(frozen=True)
class Scene:
    """What the changes are made to."""

    operator: Caller
    tenant: Caller
    fleet: Fleet

    @property
    def path(self) -> str:
        return f"/v1/tenants/{self.tenant.tenant_id}"

    async def key(self) -> str:
        made = await self.tenant.post(f"{self.path}/keys", json={"name": "ci", "role": "viewer"})
        return f"/v1/keys/{made.json()['id']}"

    async def webhook(self) -> str:
        made = await self.tenant.post("/v1/webhooks", json={"url": HOOK})
        return f"/v1/webhooks/{made.json()['id']}"

    async def ssh_key(self) -> str:
        made = await self.tenant.post("/v1/ssh-keys", json={"name": "laptop", "public_key": SSH_KEY})
        return f"/v1/ssh-keys/{made.json()['id']}"

    async def volume(self) -> str:
        made = await self.tenant.post("/v1/volumes", json=BODIES["create_volume"])
        return f"/v1/volumes/{made.json()['id']}"

    async def delivery(self) -> str:
        path = await self.webhook()
        made = await self.tenant.post(f"{path}/test")
        self.fleet.run(TRIED)
        return f"{path}/deliveries/{made.json()['id']}"

    async def budget(self) -> str:
        made = await self.tenant.post("/v1/budgets", json=BUDGET)
        return f"/v1/budgets/{made.json()['id']}"

    async def lease(self) -> str:
        made = await self.tenant.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
        self.fleet.activate(made.json()["id"])
        return f"/v1/leases/{made.json()['id']}"

    async def group(self) -> str:
        made = await self.tenant.post("/v1/groups", json=GROUP)
        return f"/v1/groups/{made.json()['id']}"

    def prepared(self, statement: str, path: str) -> str:
        self.fleet.run(statement)
        return path


Prepare = Callable[[Scene], Awaitable[tuple[str, Any]]]


def at(path: Callable[[Scene], str], body: Any = None) -> Prepare:
    async def prepare(scene: Scene) -> tuple[str, Any]:
        return path(scene), body

    return prepare


def of(make: Callable[[Scene], Awaitable[str]], rest: str = "", body: Any = None) -> Prepare:
    async def prepare(scene: Scene) -> tuple[str, Any]:
        return await make(scene) + rest, body

    return prepare


async def webhook_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/webhooks", {"tenant_id": scene.tenant.tenant_id, "url": HOOK}


async def ssh_key_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/ssh-keys", {"tenant_id": scene.tenant.tenant_id, "name": "laptop", "public_key": SSH_KEY}


async def volume_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/volumes", {**BODIES["create_volume"], "tenant_id": scene.tenant.tenant_id}


async def budget_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/budgets", {**BUDGET, "scope": {"kind": "tenant", "tenant_id": scene.tenant.tenant_id}}


async def lease_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/leases", {"tenant_id": scene.tenant.tenant_id, "gpu": {"model": "A10G"}, "ttl_seconds": 3600}


async def group_for_tenant(scene: Scene) -> tuple[str, Any]:
    return "/v1/groups", {**GROUP, "tenant_id": scene.tenant.tenant_id}


async def leases_of_tenant(scene: Scene) -> tuple[str, Any]:
    await scene.lease()
    return "/v1/leases/release", {"tenant_id": scene.tenant.tenant_id, "all": True}


REQUESTS: Mapping[str, Prepare] = {
    "create_tenant": at(lambda _: "/v1/tenants", {"name": "new"}),
    "update_tenant": at(lambda scene: scene.path, {"max_ttl_seconds": 600}),
    "create_key": at(lambda scene: f"{scene.path}/keys", {"name": "ci", "role": "viewer"}),
    "revoke_key": of(Scene.key),
    "rotate_key": of(Scene.key, "/rotate", {}),
    "create_volume": volume_for_tenant,
    "delete_volume": of(Scene.volume),
    "create_ssh_key": ssh_key_for_tenant,
    "update_ssh_key": of(Scene.ssh_key, "", {"default": True}),
    "delete_ssh_key": of(Scene.ssh_key),
    "set_quotas": at(lambda scene: f"{scene.path}/quotas", {"limits": [{"resource": "gpus", "limit": 2}]}),
    "change_quotas": at(lambda scene: f"{scene.path}/quotas", {"limits": [{"resource": "gpus", "limit": 2}]}),
    "set_idle_floor": at(lambda scene: f"{scene.path}/idle-floor", {"action": "end"}),
    "delete_idle_floor": at(lambda scene: scene.prepared(FLOOR, f"{scene.path}/idle-floor")),
    "create_budget": budget_for_tenant,
    "update_budget": of(Scene.budget, "", {"amount": "90.00"}),
    "delete_budget": of(Scene.budget),
    "create_lease": lease_for_tenant,
    "release_leases": leases_of_tenant,
    "update_lease": of(Scene.lease, "", {"labels": {"team": "vision"}}),
    "extend_lease": of(Scene.lease, "/extend", {"extend_by_seconds": 3600}),
    "release_lease": of(Scene.lease),
    "create_group": group_for_tenant,
    "resize_group": of(Scene.group, "", {"size": 1}),
    "extend_group": of(Scene.group, "/extend", {"extend_by_seconds": 3600}),
    "release_group": of(Scene.group),
    "keep_lease": of(Scene.lease, "/keep", {"seconds": 600}),
    "reboot_lease": of(Scene.lease, "/reboot"),
    "create_webhook": webhook_for_tenant,
    "update_webhook": of(Scene.webhook, "", {"description": "ours"}),
    "delete_webhook": of(Scene.webhook),
    "rotate_webhook_secret": of(Scene.webhook, "/rotate-secret"),
    "send_test_event": of(Scene.webhook, "/test"),
    "replay_webhook_delivery": of(Scene.delivery, "/replay"),
    "end_orphan": at(lambda scene: scene.prepared(ORPHAN, "/v1/ops/orphans/orphan_01jz0000000000000000000000/end")),
    "adopt_orphans": at(lambda scene: scene.prepared(ORPHAN, scene.prepared(HOLD, "/v1/ops/adopt"))),
    "cordon_account": at(lambda _: "/v1/ops/accounts/main/cordon", {"cordoned": True}),
    "request_account_checks": at(lambda _: "/v1/ops/accounts/main/checks"),
    "set_launch_stop": at(lambda _: "/v1/ops/launches", {"stopped": True}),
    "resume_installation": at(lambda scene: scene.prepared(HOLD, "/v1/ops/resume")),
}


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_nothing_that_changes_anything_is_left_out() -> None:
    assert set(REQUESTS) == set(CHANGES) - TOLD_NOWHERE


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_change_tells_who_did_what_from_where(name: str, operator: Caller, alice: Caller, fleet: Fleet) -> None:
    path, body = await REQUESTS[name](Scene(operator, alice, fleet))
    known = {entry["id"] for entry in (await operator.get("/v1/audit?limit=200")).json()["items"]}
    (method,) = CHANGES[name].methods or set()
    answer = await operator.request(method, path, json=body)
    assert answer.is_success, answer.text
    items = (await operator.get("/v1/audit?limit=200")).json()["items"]
    (entry,) = [entry for entry in items if entry["id"] not in known]
    me = (await operator.get("/v1/me")).json()["key_id"]
    assert (entry["principal"], entry["role"], entry["address"]) == (me, "operator", "192.0.2.7")
    assert entry["request_id"] == answer.headers["x-request-id"]
    assert entry["action"]
    assert entry["created_at"]
    assert entry["target"] is not None
    assert entry["before"] != entry["after"]


async def test_a_members_lease_is_told_by_its_events_alone(operator: Caller, alice: Caller, fleet: Fleet) -> None:
    member = await alice.member("member")
    made = await member.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    assert made.status_code == 201
    actions = [entry["action"] for entry in (await operator.get("/v1/audit")).json()["items"]]
    assert "lease.create" not in actions
    assert fleet.run("SELECT type FROM event WHERE lease_id = %s", made.json()["id"]) == [{"type": "lease.queued"}]
