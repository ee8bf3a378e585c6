"""`gpulease mcp` against the fake API: budgets in answers, costs, quotes, and the process itself."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import typer
import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.mcp.arguments import LeaseArguments
from app.cli.mcp.command import address
from app.cli.mcp.http import http_config
from app.cli.mcp.remaining import tightest
from app.cli.mcp.server import NO_LABELS
from app.local.ports import LOOPBACK, free_port
from app.request_deadlines import RequestDeadlines
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PLACE, TENANT_ID, TENANT_KEY, FakeApi, Json, a_lease, problem
from tests.cli.mcp_server import http_server, local_server
from tests.cli.money.test_costs import BUDGET, COSTS

ME: Json = {"key_id": "key_00000000000000000000000001", "tenant_id": TENANT_ID}
LABEL: Json = {"kind": "label", "tenant_id": TENANT_ID, "key_id": None, "label": "team:vision"}


def a_budget(number: int, available: str, **changes: Any) -> Json:
    return {**BUDGET, "id": f"budget_{number:026}", "available": available, **changes}


BUDGETS = [
    a_budget(1, "50.00", scope={"kind": "tenant", "tenant_id": TENANT_ID}),
    a_budget(2, "9.50"),
    a_budget(3, "7.00", scope=LABEL),
    a_budget(4, "1.00", when_exceeded="notify"),
    a_budget(5, "0.50", scope={"kind": "key", "tenant_id": TENANT_ID, "key_id": "key_00000000000000000000000099"}),
    a_budget(
        6,
        "0.10",
        tenant_id="tenant_00000000000000000000000099",
        scope={"kind": "tenant", "tenant_id": "tenant_00000000000000000000000099"},
    ),
]


@pytest.mark.parametrize(
    ("labels", "numbers", "expected"),
    [
        ({}, range(6), "budget_00000000000000000000000002"),
        ({"team": "vision"}, range(6), "budget_00000000000000000000000003"),
        ({"team": "speech"}, range(6), "budget_00000000000000000000000002"),
        ({}, [0, 4], "budget_00000000000000000000000001"),
        ({}, [3], "budget_00000000000000000000000004"),
        ({}, [4, 5], None),
        ({}, [], None),
    ],
)
def test_the_remaining_budget_is_the_smallest_that_counts_the_lease(
    labels: dict[str, str], numbers: list[int], expected: str | None
) -> None:
    found = tightest([BUDGETS[number] for number in numbers], ME, labels)
    assert (found or {}).get("id") == expected


def test_what_has_its_default_is_left_to_the_api_and_to_a_quote() -> None:
    assert LeaseArguments(ttl_seconds=60).body() == {"ttl_seconds": 60}
    assert LeaseArguments(ttl_seconds=60, gpu_model="T4", ssh_public_keys=[]).body() == {
        "ttl_seconds": 60,
        "gpu": {"model": "T4", "count": 1},
        "ssh_public_keys": [],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8765", ("127.0.0.1", 8765)),
        (":1", ("127.0.0.1", 1)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_an_address_to_listen_at_is_loopback_unless_a_host_is_given(text: str, expected: tuple[str, int]) -> None:
    assert address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "1:70000", "0", "a:b"])
def test_an_address_without_a_port_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        address(text)


def test_labels_of_the_server_go_over_those_of_the_agent() -> None:
    own = LeaseArguments(ttl_seconds=60, labels={"agent": "other", "team": "a"})
    assert own.with_labels({"agent": "nightly"}).labels == {"agent": "nightly", "team": "a"}
    assert LeaseArguments(ttl_seconds=60).with_labels({}).labels is None


@asynccontextmanager
async def agent(api: FakeApi, labels: Mapping[str, str] = NO_LABELS) -> AsyncIterator[Client]:
    with Api(Endpoint(api.url, TENANT_KEY), note=lambda _: None, pause=lambda _: None) as connected:
        async with Client(local_server(connected, labels), mode="legacy") as client:
            yield client


@pytest.fixture
def budgeted(api: FakeApi) -> FakeApi:
    api.documents["GET", "/v1/me"] = ME
    api.documents["GET", "/v1/budgets"] = {"items": BUDGETS, "next_cursor": None}
    return api


async def call(client: Client, tool: str, **arguments: Any) -> Json:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    document: Json | None = answer.structured_content
    assert document is not None
    return document


async def test_every_answer_has_the_remaining_budget_and_those_about_leases_their_end(budgeted: FakeApi) -> None:
    plan = {
        "admissible": True,
        "candidates": [{"rank": 1, "offering": PLACE, "price_for_term": "43.92"}],
        "excluded_by_reason": [{"code": "price_cap", "count": 7}],
    }
    money = {"amount": "9.50", "spent": "0.00", "committed": "0.00", "asked": "43.92"}
    budgets = [{"budget_id": "budget_00000000000000000000000002", **money, "fits": False}]
    prices = {"price_per_hour": "21.96", "total": "43.92", "valid_until": "2099-01-01T00:00:00Z"}
    budgeted.documents["POST", "/v1/leases/plan"] = {**plan, "budgets": budgets}
    budgeted.documents["POST", "/v1/quotes"] = {"id": "quote_01", "plan": plan, "currency": "USD", **prices}
    budgeted.documents["GET", "/v1/costs"] = COSTS
    cap = {"expires_at": "2099-06-02T10:00:00Z", "ends_at": "2099-06-01T12:00:00Z", "max_cost": "5.00"}
    lease = budgeted.add(a_lease(1, **BOOTING, **cap), ACTIVE)
    what = {"ttl_seconds": 7200, "gpu_model": "A100", "gpu_count": 8, "labels": {"team": "vision"}}
    async with agent(budgeted) as client:
        answers = {
            "plan": await call(client, "plan", **what),
            "quote": await call(client, "quote", **what),
            "costs": await call(client, "costs", since="2026-11-01", group_by=["tenant", "label:team"]),
            "budgets": await call(client, "budgets"),
            "list": await call(client, "list_leases"),
            "show": await call(client, "show_lease", lease=lease["id"], wait_seconds=60),
            "create": await call(client, "create_lease", ttl_seconds=7200, quote_id="quote_01", max_cost="1.50"),
        }
    least = {name: answer["remaining_budget"]["id"] for name, answer in answers.items()}
    assert least == {
        **dict.fromkeys(answers, "budget_00000000000000000000000002"),
        "plan": "budget_00000000000000000000000003",
        "quote": "budget_00000000000000000000000003",
    }
    assert answers["quote"]["quote_id"] == "quote_01"
    assert answers["plan"]["excluded"] == {"above the maximum price": 7}
    assert answers["plan"]["would_end_at"]
    assert answers["plan"]["budgets"] == budgets
    assert [line["cost"] for line in answers["costs"]["lines"]] == ["120.50", "120.50"]
    assert answers["costs"]["total"]["cost"] == "241.00"
    assert [item["scope"] for item in answers["budgets"]["budgets"]][:3] == [
        "tenant",
        "key key_00000000000000000000000001",
        "label team:vision",
    ]
    assert [item["ends_at"] for item in answers["list"]["leases"]] == [cap["ends_at"]]
    shown = answers["show"]["lease"]
    assert (shown["state"], shown["ends_at"], shown["max_cost"]) == ("active", cap["ends_at"], "5.00")
    assert shown["ssh_command"] == "ssh ubuntu@203.0.113.9"
    (asked,) = budgeted.calls("POST", "/v1/leases")
    assert asked.body == {"ttl_seconds": 7200, "quote_id": "quote_01", "max_cost": "1.50"}
    (costs,) = budgeted.calls("GET", "/v1/costs")
    assert costs.query["from"] == ["2026-11-01T00:00:00Z"]
    assert costs.query["group_by"] == ["tenant,label:team"]


async def test_volumes_are_listed_and_mounted(budgeted: FakeApi) -> None:
    volume = {"id": "vol_1", "name": "data", "state": "available", "size_gib": 500, "account": "main"}
    volume |= {"region": "us-east-1", "zone": "us-east-1a", "lease_id": None, "price_per_hour": "0.0548"}
    budgeted.documents["GET", "/v1/volumes"] = {"items": [volume], "next_cursor": None}
    mounts = [{"name": "data", "path": "/data"}]
    async with agent(budgeted) as client:
        listed = await call(client, "list_volumes")
        await call(client, "create_lease", ttl_seconds=7200, gpu_model="A100", volumes=mounts)
    assert listed["volumes"] == [{name: value for name, value in volume.items() if name != "id"}]
    (asked,) = budgeted.calls("POST", "/v1/leases")
    assert asked.body is not None
    assert asked.body["volumes"] == mounts


async def test_labels_of_the_server_count_where_no_lease_is_named(budgeted: FakeApi) -> None:
    budgeted.documents["GET", "/v1/costs"] = COSTS
    budgeted.add(a_lease(1, key_id="key_00000000000000000000000099"), ACTIVE)
    async with agent(budgeted, {"team": "vision"}) as client:
        answers = [await call(client, tool) for tool in ("list_leases", "costs", "budgets")]
    assert [answer["remaining_budget"]["id"] for answer in answers] == ["budget_00000000000000000000000003"] * 3
    assert [lease["budget_available"] for lease in answers[0]["leases"]] == ["0.50"]


async def test_a_budget_that_refuses_a_lease_is_explained(budgeted: FakeApi) -> None:
    amounts = {"budget": "5.00", "spent": "1.25", "committed": "2.50", "asked": "21.96", "resets_at": None}
    async with agent(budgeted) as client:
        assert (await call(client, "budgets"))["budgets"]
        budgeted.refusals["POST", "/v1/leases"] = problem(409, "budget_exceeded", "too much", **amounts)
        answer = await client.call_tool("create_lease", {"ttl_seconds": 3600, "gpu_model": "A100"})
    text = "".join(getattr(part, "text", "") for part in answer.content)
    assert answer.is_error
    for part in ("409 budget_exceeded", "too much", "spent: 1.25", "committed: 2.50", "release_lease"):
        assert part in text


async def test_an_api_that_is_away_is_a_tool_error_with_its_address(cli: Cli) -> None:
    with Api(Endpoint("http://127.0.0.1:1", "gpl_x"), note=lambda _: None, pause=lambda _: None) as away:
        async with Client(local_server(away), mode="legacy") as client:
            answer = await client.call_tool("list_leases", {})
    assert answer.is_error
    text = "".join(getattr(part, "text", "") for part in answer.content)
    assert "http://127.0.0.1:1" in text
    assert "makes no second lease" in text


async def test_the_command_serves_a_client_over_standard_input_and_output(budgeted: FakeApi, cli: Cli) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "app.cli", "mcp", "--label", "agent=nightly"], env=cli.environ
    )
    async with Client(stdio_client(server)) as client:
        assert client.instructions is not None
        made = (await call(client, "create_lease", ttl_seconds=3600, gpu_model="T4"))["lease"]
    assert list(budgeted.leases) == [made["id"]]
    (asked,) = budgeted.calls("POST", "/v1/leases")
    assert (asked.body or {})["labels"] == {"agent": "nightly"}


async def test_the_command_serves_http_until_ctrl_c(budgeted: FakeApi, cli: Cli) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with cli.start("mcp", "--http", str(port)) as process:
        assert (await _first_answer(url, process)).status_code == 401
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TENANT_KEY}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert (await call(client, "list_leases"))["leases"] == []
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    assert "MCP server for" in errors


@pytest.mark.parametrize(
    "half", [b"", b"POST /mcp HTTP/1.1\r\nhost: x\r\n", b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"]
)
async def test_half_a_request_over_http_does_not_stay_open(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("header_seconds", "request_seconds"):
        monkeypatch.setattr(RequestDeadlines, name, 0.2)
    listener = socket.create_server((LOOPBACK, 0))
    config = http_config(http_server("http://127.0.0.1:1", _no_api), LOOPBACK, listener.getsockname()[1])
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(half)
    await asyncio.wait_for(reader.read(), 5)
    writer.close()
    server.should_exit = True
    await serving


def _no_api(key: str) -> Api:
    raise AssertionError(key)


async def _first_answer(url: str, process: "subprocess.Popen[str]") -> httpx2.Response:
    """To a request without a key, as soon as the server listens."""
    async with httpx2.AsyncClient() as stranger:
        while process.poll() is None:
            try:
                return await stranger.post(url, json={})
            except httpx2.ConnectError:
                await asyncio.sleep(0.05)
    raise AssertionError("the server ended")
