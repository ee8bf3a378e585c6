"""The MCP server against the API: an official client calls its tools, with the rights of one key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.mcp.server import Connect
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.cli.mcp_server import http_server, local_server

Json = dict[str, Any]
URL = "http://api.test"
ONE_A10G: Json = {"gpu_model": "A10G", "ttl_seconds": 3600}


class Bridge(httpx.BaseTransport):
    """Carries the tools' blocking calls, which run in threads, into the application of the test's event loop."""

    def __init__(self, caller: Caller, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = httpx.ASGITransport(caller.app, raise_app_exceptions=False)
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = asyncio.run_coroutine_threadsafe(self._send(request), self._loop)
        return sent.result(timeout=60)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        request.stream = httpx.ByteStream(request.read())
        answer = await self._inner.handle_async_request(request)
        body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)


def connecting(caller: Caller) -> Connect:
    bridge = Bridge(caller, asyncio.get_running_loop())
    return lambda key: Api(Endpoint(URL, key), note=lambda _: None, transport=bridge)


@asynccontextmanager
async def agent(caller: Caller) -> AsyncIterator[Client]:
    """An agent at a server with the caller's key, over memory streams as over standard input and output."""
    with connecting(caller)(caller.key) as api:
        async with Client(local_server(api), mode="legacy") as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> Json:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    document: Json | None = answer.structured_content
    assert document is not None
    assert "remaining_budget" in document
    return document


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return "".join(getattr(part, "text", "") for part in answer.content)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_an_agent_plans_creates_lists_extends_and_releases(alice: Caller) -> None:
    async with agent(alice) as client:
        plan = await call(client, "plan", **ONE_A10G)
        assert plan["admissible"]
        assert plan["candidates"][0]["instance_type"] == "g5.xlarge"
        made = (await call(client, "create_lease", **ONE_A10G, name="train", labels={"team": "a"}))["lease"]
        assert (made["name"], made["state"]) == ("train", "queued")
        assert 3500 < made["ends_in_seconds"] <= 3600
        listed = await call(client, "list_leases", label="team:a")
        assert [lease["id"] for lease in listed["leases"]] == [made["id"]]
        shown = (await call(client, "show_lease", lease="train"))["lease"]
        assert shown["ends_at"] == made["ends_at"]
        extended = (await call(client, "extend_lease", lease="train", ends_in_seconds=7200))["lease"]
        assert 7100 < extended["ends_in_seconds"] <= 7200
        ended = (await call(client, "release_lease", lease=made["id"]))["lease"]
        assert (ended["state"], ended["ends_in_seconds"]) == ("releasing", None)
    assert (await alice.get(f"/v1/leases/{made['id']}")).json()["state"] == "releasing"


async def test_a_repeated_create_makes_one_lease_until_that_has_ended(alice: Caller) -> None:
    async with agent(alice) as client, agent(await alice.member("member")) as other:
        first = await asyncio.gather(*(call(client, "create_lease", **ONE_A10G) for _ in range(4)))
        (lease_id,) = {answer["lease"]["id"] for answer in first}
        await call(client, "release_lease", lease=lease_id)
        second = (await call(client, "create_lease", **ONE_A10G))["lease"]["id"]
        assert (await call(client, "create_lease", **ONE_A10G))["lease"]["id"] == second != lease_id
        third = (await call(client, "create_lease", **ONE_A10G, name="another"))["lease"]["id"]
        of_another_key = (await call(other, "create_lease", **ONE_A10G))["lease"]["id"]
    async with agent(alice) as restarted:
        assert (await call(restarted, "create_lease", **ONE_A10G))["lease"]["id"] == second
    assert len({lease_id, second, third, of_another_key}) == 4


async def test_a_viewers_key_reads_and_can_neither_create_nor_end(alice: Caller) -> None:
    async with agent(alice) as client:
        made = (await call(client, "create_lease", **ONE_A10G))["lease"]
    async with agent(await alice.member("viewer")) as client:
        assert len((await call(client, "list_leases"))["leases"]) == 1
        for tool, arguments in (
            ("create_lease", ONE_A10G),
            ("extend_lease", {"lease": made["id"], "ends_in_seconds": 7200}),
            ("release_lease", {"lease": made["id"]}),
        ):
            assert "forbidden" in await refused(client, tool, **arguments)
    leases = (await alice.get("/v1/leases")).json()["items"]
    assert [(lease["id"], lease["state"]) for lease in leases] == [(made["id"], "queued")]


async def test_a_refusal_says_why_and_what_to_do(alice: Caller, bob: Caller) -> None:
    async with agent(alice) as client:
        made = (await call(client, "create_lease", **ONE_A10G))["lease"]
        too_many = await refused(client, "create_lease", ttl_seconds=3600, gpu_model="A100", gpu_count=8)
        assert "gpus: 8 requested, 7 of 8 available" in too_many
        assert "release_lease" in too_many
        assert "unknown_gpu_model" in await refused(client, "plan", ttl_seconds=3600, gpu_model="Z9")
        assert "cannot be shortened" in await refused(client, "extend_lease", lease=made["id"], ends_in_seconds=60)
        assert "ttl_seconds" in await refused(client, "create_lease", gpu_model="A10G")
        misspelled = await refused(client, "create_lease", **ONE_A10G, max_cots="1.00")
        assert "no argument max_cots" in misspelled
        assert "no lease has the name" in await refused(client, "show_lease", lease="nothing")
    async with agent(bob) as stranger:
        assert "not_found" in await refused(stranger, "release_lease", lease=made["id"])


async def test_the_tools_state_what_they_change(alice: Caller) -> None:
    async with agent(alice) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    hints = {name: tool.annotations for name, tool in tools.items() if tool.annotations is not None}
    assert len(hints) == len(tools)
    assert {name for name, hint in hints.items() if not hint.read_only_hint} == {
        "create_lease",
        "extend_lease",
        "release_lease",
        "create_group",
        "release_group",
    }
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {"release_lease", "release_group"}
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema is not None
        for name, described in tool.input_schema["properties"].items():
            assert described.get("description"), (tool.name, name)


async def test_over_http_each_request_acts_with_the_key_that_it_carries(alice: Caller, bob: Caller) -> None:
    server = http_server(URL, connecting(alice))
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    async with server.session_manager.run():

        @asynccontextmanager
        async def connected(key: str) -> AsyncIterator[Client]:
            transport = httpx2.ASGITransport(app)
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                httpx2.AsyncClient(transport=transport, headers=headers) as http,
                Client(streamable_http_client("http://127.0.0.1:8765/mcp", http_client=http)) as client,
            ):
                yield client

        async with connected(alice.key) as client:
            made = (await call(client, "create_lease", **ONE_A10G))["lease"]
        async with connected(bob.key) as client:
            assert (await call(client, "list_leases"))["leases"] == []
            assert "not_found" in await refused(client, "show_lease", lease=made["id"])
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
            for headers in ({}, {"Authorization": "Bearer gpl_nothing"}):
                answer = await http.post("http://127.0.0.1:8765/mcp", json={}, headers=headers)
                assert answer.status_code == 401
            foreign = {"Authorization": f"Bearer {alice.key}", "Host": "evil.example"}
            assert (await http.post("http://127.0.0.1:8765/mcp", json={}, headers=foreign)).status_code == 421
