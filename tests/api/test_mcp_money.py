"""The MCP server and money: a key with a budget, a quote, costs."""

from decimal import Decimal

import pytest

from tests.api.conftest import Caller, new_tenant
from tests.api.fleet import Fleet
from tests.api.test_mcp import ONE_A10G, agent, call, refused

PRICE = Decimal("1.006")
"USD for an hour of the A10G."


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_a_key_with_a_budget_leases_until_the_budget_is_committed(operator: Caller) -> None:
    tenant = await new_tenant(operator, "agents", gpus=100)
    body = {"name": "agent", "role": "member", "budget": "5.00"}
    made = (await tenant.post(f"/v1/tenants/{tenant.tenant_id}/keys", json=body)).json()
    async with agent(Caller(tenant.app, made["secret"], tenant.tenant_id)) as client:
        answers = [await call(client, "create_lease", **ONE_A10G, name=f"lease-{number}") for number in range(4)]
        left = [Decimal(answer["remaining_budget"]["available"]) for answer in answers]
        assert all(0 <= 5 - number * PRICE - amount < Decimal("0.2") for number, amount in enumerate(left, start=1))
        assert answers[0]["remaining_budget"]["scope"] == f"key {made['id']}"
        refusal = await refused(client, "create_lease", **ONE_A10G, name="one-too-many")
        for part in ("budget_exceeded", "5.00", "release_lease"):
            assert part in refusal
        await call(client, "release_lease", lease="lease-0")
        async with agent(tenant) as admin:
            assert (await call(admin, "list_leases"))["remaining_budget"] is None
            (budget,) = (await call(admin, "budgets"))["budgets"]
    assert (budget["amount"], budget["period"], budget["when_exceeded"]) == ("5.00", "lifetime", "end")


async def test_answers_about_a_lease_have_the_budgets_of_its_creator(operator: Caller) -> None:
    """Whose key asks does not matter: an extension of the lease counts in the budgets of the lease."""
    tenant = await new_tenant(operator, "agents", gpus=100)
    keys = f"/v1/tenants/{tenant.tenant_id}/keys"
    creator = (await tenant.post(keys, json={"name": "creator", "role": "member", "budget": "2.00"})).json()
    caller = (await tenant.post(keys, json={"name": "caller", "role": "member", "budget": "1.00"})).json()
    scope = {"kind": "label", "label": "team:vision"}
    await tenant.post("/v1/budgets", json={"scope": scope, "period": "lifetime", "amount": "1.50"})
    async with agent(Caller(tenant.app, creator["secret"], tenant.tenant_id)) as client:
        plain = (await call(client, "create_lease", **ONE_A10G, name="plain"))["lease"]
        with_label = {"name": "with-label", "labels": {"team": "vision"}, "max_cost": "0.50"}
        labelled = (await call(client, "create_lease", **ONE_A10G, **with_label))["lease"]
    budgets = {item["id"]: item for item in (await tenant.get("/v1/budgets")).json()["items"]}
    left = {item["scope"]["key_id"] or item["scope"]["label"]: item["available"] for item in budgets.values()}
    for secret in (caller["secret"], tenant.key):
        async with agent(Caller(tenant.app, secret, tenant.tenant_id)) as client:
            shown = await call(client, "show_lease", lease=plain["id"])
            listed = await call(client, "list_leases")
        assert shown["remaining_budget"]["scope"] == f"key {creator['id']}"
        least = {lease["id"]: lease["budget_available"] for lease in listed["leases"]}
        assert least == {
            plain["id"]: left[creator["id"]],
            labelled["id"]: min(left["team:vision"], left[creator["id"]]),
        }
        own = None if secret == tenant.key else f"key {caller['id']}"
        assert (listed["remaining_budget"] or {}).get("scope") == own


async def test_a_quote_becomes_a_lease_that_costs_no_more(alice: Caller) -> None:
    async with agent(alice) as client:
        quote = await call(client, "quote", **ONE_A10G)
        assert Decimal(quote["price_per_hour"]) == PRICE
        accepted = {"quote_id": quote["quote_id"], "ttl_seconds": ONE_A10G["ttl_seconds"], "max_cost": "0.50"}
        made = (await call(client, "create_lease", **accepted))["lease"]
        assert (await call(client, "create_lease", **accepted))["lease"]["id"] == made["id"]
        assert Decimal(made["max_cost"]) == Decimal("0.50")
        other_term = {**accepted, "ttl_seconds": 7200}
        assert "ttl_seconds differs" in await refused(client, "create_lease", **other_term)
    lease = (await alice.get(f"/v1/leases/{made['id']}")).json()
    assert lease["quote_id"] == quote["quote_id"]


async def test_costs_have_a_total_and_only_known_groups(alice: Caller) -> None:
    async with agent(alice) as client:
        found = await call(client, "costs", since="2026-11-01", bucket="month", group_by=["lease", "label:team"])
        assert found["lines"] == []
        assert Decimal(found["total"]["cost"]) == 0
        assert "gpu_model" in await refused(client, "costs", group_by=["colour"])
