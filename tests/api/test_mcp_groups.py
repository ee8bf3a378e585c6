"""The MCP server's tools about groups and the catalogue, against the API."""

import asyncio

import pytest
from mcp import Client

from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_mcp import ONE_A10G, Json, agent, call, connecting, refused
from tests.cli.mcp_server import local_server

TRAIN: Json = {"name": "train", "size": 3, **ONE_A10G}
CAPPED: Json = {**TRAIN, "max_cost": "10"}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_a_group_is_planned_created_once_listed_and_released(alice: Caller) -> None:
    async with agent(alice) as client:
        plan = await call(client, "plan_group", **TRAIN)
        assert (plan["admissible"], plan["price_per_hour"], plan["total"]) == (True, "3.018", "3.018")
        assert plan["candidates"][0]["price_per_hour"] == "1.006"
        answers = await asyncio.gather(*(call(client, "create_group", **CAPPED) for _ in range(3)))
        (group_id,) = {answer["group"]["id"] for answer in answers}
        assert (await call(client, "create_group", **CAPPED))["group"]["id"] == group_id
        assert [group["id"] for group in (await call(client, "list_groups"))["groups"]] == [group_id]
        seen = (await call(client, "show_group", group="train"))["group"]
        assert (seen["state"], seen["members"]) == ("queued", {"queued": 3})
        assert seen["expected_price_per_hour"] == "3.018"
        assert 3500 < seen["ends_in_seconds"] <= 3600
        assert (await call(client, "show_lease", lease="train-2"))["lease"]["max_cost"] == "3.333333"
        released = (await call(client, "release_group", group="train"))["group"]
        assert (released["state"], released["ends_in_seconds"]) == ("releasing", None)
        assert "name_taken" in await refused(client, "create_group", **CAPPED)
    async with agent(alice) as restarted:
        groups = (await call(restarted, "list_groups", include_ended=True))["groups"]
        assert [group["id"] for group in groups] == [group_id]


async def test_an_equal_call_after_the_end_of_a_group_creates_another(alice: Caller, fleet: Fleet) -> None:
    async with agent(alice) as client:
        first = (await call(client, "create_group", **CAPPED))["group"]["id"]
        await call(client, "release_group", group=first)
        for lease in (await alice.get("/v1/leases")).json()["items"]:
            fleet.finish(lease["id"])
        fleet.run("UPDATE lease_group SET state = 'ended', ended_at = now() WHERE id = %s", first)
        second = (await call(client, "create_group", **CAPPED))["group"]["id"]
        assert (await call(client, "create_group", **CAPPED))["group"]["id"] == second != first


async def test_a_group_needs_a_cap_that_its_members_can_use_and_room_in_the_budgets(alice: Caller) -> None:
    keys = f"/v1/tenants/{alice.tenant_id}/keys"
    made = (await alice.post(keys, json={"name": "agent", "role": "member", "budget": "2.50"})).json()
    async with agent(Caller(alice.app, made["secret"], alice.tenant_id)) as client:
        assert "max_cost" in await refused(client, "create_group", **TRAIN)
        assert "no_offering" in await refused(client, "create_group", **TRAIN, max_cost="0.000003")
        assert "budget_exceeded" in await refused(client, "create_group", **CAPPED)
        two = await call(client, "create_group", **{**CAPPED, "size": 2})
        assert two["remaining_budget"]["scope"] == f"key {made['id']}"
    assert len((await alice.get("/v1/groups")).json()["items"]) == 1


async def test_labels_of_the_server_go_to_the_members_and_into_the_plan(alice: Caller) -> None:
    budget = {"scope": {"kind": "label", "label": "team:vision"}, "period": "lifetime", "amount": "50"}
    made = (await alice.post("/v1/budgets", json=budget)).json()
    with connecting(alice)(alice.key) as api:
        async with Client(local_server(api, {"team": "vision"}), mode="legacy") as client:
            plan = await call(client, "plan_group", **TRAIN)
            group = await call(client, "create_group", **CAPPED)
    assert [budget["budget_id"] for budget in plan["budgets"]] == [made["id"]]
    assert group["remaining_budget"]["id"] == made["id"]
    leases = (await alice.get("/v1/leases", params={"label": "team:vision"})).json()["items"]
    assert len(leases) == 3


async def test_an_agent_finds_what_fits_and_learns_why_a_lease_waits(alice: Caller, fleet: Fleet) -> None:
    async with agent(alice) as client:
        models = {model["model"]: model for model in (await call(client, "models"))["models"]}
        assert models["A10G"]["memory_gib"] == [24]
        assert models["A10G"]["markets"]["on_demand"] == {"counts": [1, 4], "per_gpu_hour": "1.006"}
        assert list(models["A100"]["markets"]) == ["on_demand"]
        offers = await call(client, "offerings", gpu_model="A10G", market="on_demand", limit=1)
        (cheapest,) = offers["offerings"]
        assert (cheapest["instance_type"], cheapest["gpus"]) == ("g5.xlarge", "1 x A10G 24 GiB")
        assert (cheapest["price_per_hour"], offers["more"]) == ("1.006", True)
        sized = await call(client, "size", task="inference", model="Qwen/Qwen2.5-7B", context=8192, concurrency=4)
        assert sized["total_gb"] > 15
        assert sized["fits"][0] == {
            "gpu_model": "A10G",
            "memory_gib": 24,
            "count": 1,
            "margin_percent": 11.4,
            "interconnect": None,
        }
        assert sized["offerings"][0]["instance_type"] == "g5.xlarge"
        assert "model is not in the table" in await refused(client, "size", task="inference", model="nothing-7b")
        made = (await call(client, "create_lease", **ONE_A10G, name="train"))["lease"]
        why = await call(client, "explain", lease="train")
    assert why["state"] == "queued"
    assert why["summary"]
    document = (await alice.get(f"/v1/leases/{made['id']}/explain")).json()
    assert (why["code"], why["candidates_count"]) == (document["code"], document["candidates_count"])
    assert len(why["candidates"]) == min(5, len(document["candidates"])) > 0
