"""Who did what."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI

from app.prerequisites import ensure_operator_key
from tests.api.conftest import Caller, new_tenant
from tests.api.fleet import SSH_KEY, Fleet


@pytest.fixture
async def operator(app: FastAPI, database_url: str) -> AsyncIterator[Caller]:
    """As the program makes it: here the trail has the entries of all three callers."""
    async with Caller(app, ensure_operator_key(database_url, None)) as caller:
        yield caller


@pytest.fixture
async def alice(operator: Caller) -> Caller:
    return await new_tenant(operator, "alice", gpus=8, leases=10)


@pytest.fixture
async def bob(operator: Caller) -> Caller:
    return await new_tenant(operator, "bob", gpus=8, leases=10)


async def trail(caller: Caller) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await caller.get("/v1/audit")).json()["items"]
    return items


async def test_every_change_leaves_an_entry_with_before_and_after(operator: Caller, alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}"
    first = await operator.patch(path, json={"max_ttl_seconds": 600})
    await operator.put(f"{path}/quotas", json={"limits": [{"resource": "gpus", "limit": 2}]})
    made = (await alice.post(f"{path}/keys", json={"name": "ci", "role": "viewer"})).json()
    await alice.post(f"/v1/keys/{made['id']}/rotate", json={})
    await alice.delete(f"/v1/keys/{made['id']}")
    entries = await trail(operator)
    assert [entry["action"] for entry in entries[:5]] == [
        "key.revoke",
        "key.rotate",
        "key.create",
        "quota.set",
        "tenant.change",
    ]
    changed = entries[4]
    assert (changed["before"]["max_ttl_seconds"], changed["after"]["max_ttl_seconds"]) == (86_400, 600)
    assert (changed["target"], changed["address"], changed["request_id"]) == (
        alice.tenant_id,
        "192.0.2.7",
        first.headers["x-request-id"],
    )
    assert entries[3]["before"]["gpus"] == 8
    me = (await alice.get("/v1/me")).json()
    assert (entries[0]["principal"], entries[0]["principal_name"]) == (me["key_id"], me["key_name"])
    assert [entry["target_name"] for entry in entries[:3]] == ["ci", "ci", "ci"]
    own = [entry for entry in await trail(alice) if entry["principal"] == "operator"]
    assert own
    assert {entry["principal_name"] for entry in own} == {None}, "tenants do not learn the operator's key"


async def test_no_entry_holds_a_secret(operator: Caller, alice: Caller) -> None:
    made = (await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "viewer"})).json()
    assert made["secret"].rpartition("_")[2] not in (await operator.get("/v1/audit")).text


async def test_a_created_lease_is_noted_with_the_fingerprints_of_its_keys(alice: Caller, database_url: str) -> None:
    """The trail is kept for ever, so it holds no more of a request than tells what was asked for."""
    Fleet(database_url).catalogue()
    wish = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "ssh_public_keys": [SSH_KEY]}
    assert (await alice.post("/v1/leases", json=wish)).status_code == 201
    [created] = [entry for entry in await trail(alice) if entry["action"] == "lease.create"]
    assert created["after"]["request"]["ssh_public_keys"] == [
        "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU me@example"
    ]
    assert created["after"]["request"]["gpu"]["model"] == "A10G"


async def test_an_admin_sees_the_own_tenant_alone(operator: Caller, alice: Caller, bob: Caller) -> None:
    assert {entry["tenant_id"] for entry in await trail(alice)} == {alice.tenant_id}
    assert {entry["tenant_id"] for entry in await trail(bob)} == {bob.tenant_id}
    assert {entry["tenant_id"] for entry in await trail(operator)} == {None, alice.tenant_id, bob.tenant_id}


async def test_a_tenant_learns_neither_key_nor_address_of_an_operator(operator: Caller, alice: Caller) -> None:
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"max_ttl_seconds": 600})
    await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "viewer"})
    found = {entry["action"]: entry for entry in reversed(await trail(alice))}
    hidden = found["tenant.change"]
    assert [hidden[name] for name in ("principal", "role", "address", "request_id")] == [
        "operator",
        "operator",
        None,
        None,
    ]
    assert found["key.create"]["address"] is not None
    assert found["key.create"]["principal"] == (await alice.get("/v1/me")).json()["key_id"]
    seen = next(entry for entry in await trail(operator) if entry["id"] == hidden["id"])
    assert seen["principal"].startswith("key_")
    assert None not in (seen["address"], seen["request_id"])


async def test_what_fails_leaves_none(operator: Caller, alice: Caller) -> None:
    before = len(await trail(operator))
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"max_ttl_seconds": 600, "max_total_seconds": 60})
    assert len(await trail(operator)) == before


async def test_pages_go_through_the_whole_trail(operator: Caller, alice: Caller) -> None:
    everything = [entry["id"] for entry in await trail(operator)]
    seen: list[str] = []
    params: dict[str, str | int] = {"limit": 2}
    while True:
        page = (await operator.get("/v1/audit", params=params)).json()
        seen += [entry["id"] for entry in page["items"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert seen == everything


async def test_the_trail_is_filtered_by_action_target_and_time(operator: Caller, alice: Caller) -> None:
    key = (await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "viewer"})).json()["id"]
    await alice.delete(f"/v1/keys/{key}")
    about = [entry["action"] for entry in (await alice.get(f"/v1/audit?about={key}")).json()["items"]]
    assert about == ["key.revoke", "key.create"]
    some = (await alice.get(f"/v1/audit?about={key}&type=key.revoke&type=lease.create")).json()["items"]
    assert [entry["action"] for entry in some] == ["key.revoke"]
    when = some[0]["created_at"]
    assert (await alice.get(f"/v1/audit?created_after={when}")).json()["items"] == []
    earlier = (await alice.get(f"/v1/audit?created_before={when}&about={key}")).json()["items"]
    assert [entry["action"] for entry in earlier] == ["key.create"]
