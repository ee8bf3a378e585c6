"""What an agent pays for: the list of tools, and answers about groups and waiting leases."""

import json

import pytest

from tests.cli.fake_api import Answer, FakeApi, a_lease
from tests.cli.groups.test_groups import ID as GROUP_ID
from tests.cli.groups.test_groups import a_group
from tests.cli.test_explain import EXPLANATION
from tests.cli.test_mcp import BUDGETS, ME, agent, call

_MOST_LETTERS = 25_000
"Of all names, descriptions and arguments: 19 tools had 24,100 on 2026-11-29."


@pytest.fixture
def budgeted(api: FakeApi) -> FakeApi:
    api.documents["GET", "/v1/me"] = ME
    api.documents["GET", "/v1/budgets"] = {"items": BUDGETS, "next_cursor": None}
    return api


async def test_the_list_of_tools_is_short(api: FakeApi) -> None:
    async with agent(api) as client:
        tools = (await client.list_tools()).tools
    texts = [f"{tool.name}{tool.description}{json.dumps(tool.input_schema)}" for tool in tools]
    assert sum(map(len, texts)) <= _MOST_LETTERS
    assert not [tool.name for tool in tools if '"title":' in json.dumps([tool.input_schema, tool.output_schema])]


async def test_a_group_is_shown_when_it_is_formed_or_the_wait_is_over(
    budgeted: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.mcp.group_tools._POLL_SECONDS", 0.01)
    key = {"key_id": ME["key_id"]}
    forming, formed = a_group("forming", "active", "booting", **key), a_group("active", "active", "active", **key)
    async with agent(budgeted) as client:
        budgeted.next_answers.extend(Answer(200, seen) for seen in (forming, formed))
        shown = (await call(client, "show_group", group=GROUP_ID, wait_seconds=60))["group"]
        budgeted.documents["GET", f"/v1/groups/{GROUP_ID}"] = forming
        waiting = (await call(client, "show_group", group=GROUP_ID))["group"]
    assert (shown["state"], shown["ready"], shown["members"]) == ("active", 2, {"active": 2})
    assert shown["place"] == "us-east-1a p4d.24xlarge on_demand (research)"
    assert (waiting["state"], waiting["members"]) == ("forming", {"active": 1, "booting": 1})
    assert (waiting["expected_price_per_hour"], waiting["pools_failed"]) == ("110", 1)


async def test_an_explanation_names_what_hinders_and_what_would_fit(budgeted: FakeApi) -> None:
    lease = budgeted.add(a_lease(1))
    explanation = {**EXPLANATION, "candidates": EXPLANATION["candidates"] * 20}
    budgeted.documents["GET", f"/v1/leases/{lease['id']}/explain"] = explanation
    async with agent(budgeted) as client:
        why = await call(client, "explain", lease=lease["id"])
    assert why["remaining_budget"]["id"] == "budget_00000000000000000000000002"
    assert (why["summary"], why["candidates_count"]) == (EXPLANATION["summary"], 21)
    assert len(why["candidates"]) == 5
    assert why["candidates"][0].endswith("in cool-off: the provider had no capacity (InsufficientInstanceCapacity)")
    assert why["excluded"] == ["12 offerings cost more than max_price_per_hour"]
    assert why["quota"] == ["gpus: 8 requested, 0 of 8 available"]
    assert [item["change"] for item in why["suggestions"]] == [{"max_price_per_hour": "21.96"}]
