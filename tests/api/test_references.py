"""What a body names by its id or its name: unknown, of another tenant, ended or of another type is 422 at that member."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet


@pytest.fixture(autouse=True)
def catalogue(database_url: str) -> None:
    Fleet(database_url).catalogue()


URL = "https://93.184.216.34/hook"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example"
LEASE = {"gpu": {"model": "A10G", "count": 1}, "ttl_seconds": 3600, "ssh_public_keys": [SSH_KEY]}
BUDGET = {"period": "month", "amount": "5"}
NAMES_A_TENANT: Mapping[str, dict[str, Any]] = {
    "/v1/ssh-keys": {"name": "a", "public_key": SSH_KEY},
    "/v1/volumes": {"name": "a", "size_gib": 1, "account": "main", "region": "us-east-1", "zone": "us-east-1a"},
    "/v1/budgets": {**BUDGET, "scope": {"kind": "tenant"}},
    "/v1/sizings": {"task": "inference", "parameters": 7_000_000_000},
    "/v1/leases/plan": LEASE,
    "/v1/quotes": LEASE,
    "/v1/leases": LEASE,
    "/v1/leases/release": {"label": ["a:b"]},
    "/v1/groups": {"name": "g", "size": 2, "lease": LEASE},
    "/v1/groups/plan": {"name": "g", "size": 2, "lease": LEASE},
    "/v1/webhooks": {"url": URL},
}
UNKNOWN = "01jz0000000000000000000000"


def naming(path: str, tenant_id: str) -> tuple[dict[str, Any], str]:
    body = NAMES_A_TENANT[path]
    if path == "/v1/budgets":
        return {**body, "scope": {**body["scope"], "tenant_id": tenant_id}}, "#/body/scope/tenant_id"
    return {**body, "tenant_id": tenant_id}, "#/body/tenant_id"


async def refused(caller: Caller, path: str, body: dict[str, Any], pointer: str) -> str:
    answer = await caller.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer], answer.text
    return str(answer.json()["errors"][0]["detail"])


@pytest.mark.parametrize("path", NAMES_A_TENANT)
async def test_a_tenant_in_a_body_is_one_that_the_caller_may_name(
    operator: Caller, alice: Caller, bob: Caller, path: str
) -> None:
    for named in (f"tenant_{UNKNOWN}", f"lease_{UNKNOWN}", "x"):
        assert await refused(operator, path, *naming(path, named))
    for named in (bob.tenant_id, f"tenant_{UNKNOWN}", "x"):
        assert await refused(alice, path, *naming(path, named))


async def test_a_quote_of_a_lease_is_one_of_the_tenant(operator: Caller, alice: Caller, bob: Caller) -> None:
    made = await bob.post("/v1/quotes", json=LEASE)
    assert made.status_code == 201, made.text
    for named in (f"quote_{UNKNOWN}", f"lease_{UNKNOWN}", "x", made.json()["id"]):
        assert await refused(alice, "/v1/leases", {"quote_id": named}, "#/body/quote_id")
        body = {"quote_id": named, "tenant_id": alice.tenant_id}
        assert await refused(operator, "/v1/leases", body, "#/body/quote_id")


async def test_a_key_of_a_budget_is_one_of_the_tenant_whose_leases_may_outlive_it(alice: Caller, bob: Caller) -> None:
    async def key(caller: Caller) -> str:
        made = await caller.post(f"/v1/tenants/{caller.tenant_id}/keys", json={"name": "a", "role": "member"})
        return str(made.json()["id"])

    revoked = await key(alice)
    assert (await alice.delete(f"/v1/keys/{revoked}")).status_code in {200, 204}
    for named in (f"key_{UNKNOWN}", f"lease_{UNKNOWN}", "x", await key(bob)):
        body = {**BUDGET, "scope": {"kind": "key", "key_id": named}}
        assert await refused(alice, "/v1/budgets", body, "#/body/scope/key_id")
    of_revoked = {**BUDGET, "scope": {"kind": "key", "key_id": revoked}}
    assert (await alice.post("/v1/budgets", json=of_revoked)).status_code == 201


@pytest.mark.parametrize("path", ["/v1/leases", "/v1/leases/plan", "/v1/quotes", "/v1/groups", "/v1/groups/plan"])
async def test_an_ssh_key_of_a_lease_is_one_of_the_tenant(alice: Caller, bob: Caller, path: str) -> None:
    for caller, name in ((bob, "theirs"), (alice, "deleted")):
        made = await caller.post("/v1/ssh-keys", json={"name": name, "public_key": SSH_KEY})
        assert made.status_code == 201
        if name == "deleted":
            await caller.delete(f"/v1/ssh-keys/{made.json()['id']}")
    for name in ("unknown", "theirs", "deleted"):
        lease = {**LEASE, "ssh_keys": [name]}
        body, at = (
            ({"name": "g", "size": 2, "lease": lease}, "/lease") if path.startswith("/v1/groups") else (lease, "")
        )
        assert await refused(alice, path, body, f"#/body{at}/ssh_keys/0")


def test_every_member_of_a_body_that_names_a_resource_is_in_this_table(spec: dict[str, Any]) -> None:
    found = {
        (path, member)
        for path, operations in spec["paths"].items()
        for method, operation in operations.items()
        if method in {"post", "put", "patch"} and "requestBody" in operation and not path.startswith("/v1/agent")
        for member in _members(spec, operation["requestBody"])
        if member.endswith("_id") or member in {"ids", "ssh_keys", "volumes"}
    }
    of_leases = {"/v1/leases", "/v1/leases/plan", "/v1/quotes", "/v1/groups", "/v1/groups/plan"}
    tabled = {(path, "tenant_id") for path in NAMES_A_TENANT} | {("/v1/budgets", "key_id")}
    tabled |= {(path, member) for path in of_leases for member in ("quote_id", "ssh_keys", "volumes")}
    tabled |= {("/v1/leases/release", "ids")}  # the answer lists those not found
    assert found == tabled


def _members(spec: dict[str, Any], part: Any) -> set[str]:
    """The names of members of a schema, at any depth."""
    if isinstance(part, list):
        return set().union(*(_members(spec, one) for one in part))
    if not isinstance(part, dict):
        return set()
    if "$ref" in part:
        return _members(spec, spec["components"]["schemas"][part["$ref"].rpartition("/")[2]])
    own = set(part["properties"]) if isinstance(part.get("properties"), dict) else set()
    return own.union(*(_members(spec, one) for one in part.values()))
