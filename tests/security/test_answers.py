"""Every route, called well: the status and the fields that openapi.json declares, and no other."""

from typing import Any

import httpx
import jsonschema
import pytest

from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.openapi_stage import FLOOR, IDLE
from tests.api.test_host_keys import Leased
from tests.api.test_ops import orphan
from tests.security.routes import BUDGET, GIVEN_UP, HOOK, OPERATIONS, Operation, closed

LAST = (
    "release_group",
    "delete_webhook",
    "delete_budget",
    "delete_ssh_key",
    "delete_volume",
    "release_lease",
    "revoke_key",
)
"""Called after all others: they end what the others need."""


AS_MEMBER = "UPDATE lease SET group_id = %s, rank = 2 WHERE id = %s"


@pytest.fixture
async def ids(alice: Caller, operator: Caller, fleet: Fleet) -> dict[str, str]:
    """Things that exist, by the names of path parameters."""
    wish = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "startup_script": "#!/bin/true"}
    lease_id = (await alice.post("/v1/leases", json=wish)).json()["id"]
    fleet.activate(lease_id)
    console = "INSERT INTO lease_console (lease_id, tenant_id, n, text) VALUES (%s, %s, 1, 'no boot')"
    fleet.run(console, lease_id, alice.tenant_id)
    orphan(fleet, "i-1")
    fleet.number_events()
    key = await operator.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "viewer"})
    (row,) = fleet.run("SELECT id FROM orphan")
    place = {"account": "main", "region": "us-east-1", "orphan_id": row["id"], "name": "main"}
    hook = (await alice.post("/v1/webhooks", json={"url": HOOK})).json()["id"]
    sent = (await alice.post(f"/v1/webhooks/{hook}/test")).json()["id"]
    fleet.run(GIVEN_UP)
    ssh_key = (await alice.post("/v1/ssh-keys", json={"name": "laptop", "public_key": SSH_KEY})).json()["id"]
    budget = (await alice.post("/v1/budgets", json=BUDGET)).json()["id"]
    asked = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
    quote = (await alice.post("/v1/quotes", json=asked)).json()["id"]
    volume = fleet.volume(alice.tenant_id, "laptop")
    hooks = {
        "volume_id": volume,
        "webhook_id": hook,
        "delivery_id": sent,
        "ssh_key_id": ssh_key,
        "budget_id": budget,
        "quote_id": quote,
    }
    hooks["group_id"] = (await alice.post("/v1/groups", json={"name": "two", "size": 2, "lease": asked})).json()["id"]
    fleet.run(IDLE, lease_id)
    fleet.run(FLOOR, alice.tenant_id)
    return {"lease_id": lease_id, "tenant_id": alice.tenant_id, "key_id": key.json()["id"], **place, **hooks}


NEWEST_ATTEMPT = "UPDATE lease SET attempts_count = 1 WHERE id = %s RETURNING extract(epoch FROM now()) AS now"


async def call(one: Operation, caller: Caller, ids: dict[str, str], body: Any) -> httpx.Response:
    return await caller.request(one.method, one.url(ids), params=one.page(50), json=body)


async def test_every_route_answers_exactly_what_it_declares(
    operator: Caller, alice: Caller, anonymous: Caller, fleet: Fleet, ids: dict[str, str]
) -> None:
    schemas = closed()
    for one in sorted(OPERATIONS, key=lambda one: LAST.index(one.id) if one.id in LAST else -1):
        body = one.body
        caller = operator if one.role in {"operator", "deadman"} else alice if one.role else anonymous
        if one.id == "report_host_keys":
            caller = Caller(alice.app, Leased(fleet, alice, ids["lease_id"]).token)
        if one.of_agent:
            caller = Caller(alice.app, fleet.give_agent_token(ids["lease_id"]))
        if one.id in {"get_own_group_hosts", "report_group_check"}:
            fleet.run(AS_MEMBER, ids["group_id"], ids["lease_id"])
        if one.id == "report_gpu_samples":
            (newest,) = fleet.run(NEWEST_ATTEMPT, ids["lease_id"])
            body = {**body, "samples": [{"at": float(newest["now"]), "gpus": []}]}
        answer = await call(one, caller, ids, body)
        status, name = one.success()
        assert answer.status_code == status, (one.id, answer.text)
        if name is None:
            assert not answer.content or answer.headers["content-type"].startswith(("text/plain", "text/csv")), one.id
        else:
            assert answer.headers["content-type"] == "application/json"
            jsonschema.validate(
                answer.json(), {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
            )


async def test_a_viewer_never_sees_what_is_hidden_from_viewers(
    alice: Caller, fleet: Fleet, ids: dict[str, str]
) -> None:
    viewer = await alice.member("viewer")
    hidden = ("no boot", '"startup_script":"#!/bin/true"', alice.key)
    for one in OPERATIONS:
        if one.method == "GET" and one.role in {"viewer", "member", "admin"}:
            answer = await call(one, viewer, ids, None)
            assert not any(word in answer.text for word in hidden), one.id
