"""The pages about agents do what they say: the workflow runs, and the configurations start the server."""

import json
import os
import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp.server.mcpserver.exceptions import ToolError

from app.api.http.problems import problem
from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import ProblemError
from app.cli.mcp.advice import explained
from app.services.money.budget_refusals import BudgetNeed
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_KEY, FakeApi
from tests.cli.mcp_server import local_server
from tests.house.sources import ROOT
from tests.house.test_docs import parse

AGENTS = (ROOT / "docs" / "howto" / "agents-and-ci.md").read_text(encoding="utf-8")
MCP = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
TOOLS = r"^\| `(\w+)` \| .* \| (.*) \|$"
ON_THIS_MACHINE = {
    "gpulease": f'exec {shlex.quote(sys.executable)} -m app.cli "$@"',
    "ssh-keygen": "echo ssh-ed25519 AAAA ci > lease_key.pub",
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def steps() -> dict[str, dict[str, Any]]:
    (workflow,) = map(yaml.safe_load, blocks(AGENTS, "yaml"))
    (job,) = workflow["jobs"].values()
    return {step["name"]: step for step in job["steps"] if "name" in step}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs that the workflow calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, line in ON_THIS_MACHINE.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def run(step: str, api: FakeApi, cli: Cli, programs: Path) -> "subprocess.CompletedProcess[str]":
    environment = {
        **os.environ,
        **cli.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GPULEASE_URL": api.url,
        "GPULEASE_KEY": TENANT_KEY,
        "LEASE": "ci-7-1",
    }
    argv = ["/bin/bash", "-eo", "pipefail", "-c", steps()[step]["run"]]
    return subprocess.run(argv, cwd=programs.parent, env=environment, capture_output=True, text=True, check=False)


def test_the_workflow_leases_with_limits_and_releases(api: FakeApi, cli: Cli, programs: Path) -> None:
    api.new_course = (PROVISIONING, BOOTING, ACTIVE)
    for _ in range(2):  # a step that is repeated finds its lease
        done = run("Lease a GPU", api, cli, programs)
        assert done.returncode == 0, done.stderr
    (lease,) = api.leases.values()
    (first, _) = api.calls("POST", "/v1/leases")
    body = first.body or {}
    assert (body["name"], body["ttl_seconds"], body["max_cost"]) == ("ci-7-1", 2700, "2.00")
    assert body["ssh_public_keys"] == ["ssh-ed25519 AAAA ci"]
    done = run("Release", api, cli, programs)
    assert done.returncode == 0, done.stderr
    assert api.leases[lease["id"]]["state"] == "releasing"
    assert steps()["Release"]["if"] == "always()"


def test_the_other_commands_of_the_workflow_exist() -> None:
    for line in steps()["Test"]["run"].splitlines():
        program, *arguments = shlex.split(line)
        parse(program, *arguments)


@pytest.mark.parametrize("text", [*blocks(AGENTS, "json"), *blocks(MCP, "json")])
def test_a_configuration_starts_the_server(text: str) -> None:
    ((_, servers),) = json.loads(text).items()
    for server in servers.values():
        if "command" in server:
            parse(server["command"], *server["args"])
        else:
            assert server["url"] == "http://127.0.0.1:8765/mcp"
            assert "gpulease mcp --http 8765" in MCP


async def test_a_tool_refuses_an_argument_that_it_does_not_have(api: FakeApi) -> None:
    with Api(Endpoint(api.url, TENANT_KEY), note=lambda _: None) as connected:
        server = local_server(connected)
        for tool in await server.list_tools():
            assert tool.input_schema["additionalProperties"] is False
            with pytest.raises(ToolError, match=f"{tool.name} has no argument max_cots"):
                await server.call_tool(tool.name, {"max_cots": "1"})


async def test_the_page_lists_every_tool_and_what_it_changes(api: FakeApi) -> None:
    with Api(Endpoint(api.url, TENANT_KEY), note=lambda _: None) as connected:
        tools = await local_server(connected).list_tools()
    expected = {}
    for tool in tools:
        hints = tool.annotations
        assert hints is not None
        expected[tool.name] = (
            "nothing" if hints.read_only_hint else "destructive" if hints.destructive_hint else "costs money"
        )
    assert dict(re.findall(TOOLS, MCP, re.MULTILINE)) == expected


def test_a_refusal_reads_as_the_page_shows_it() -> None:
    (example,) = blocks(MCP, "text")
    need = BudgetNeed(
        budget_id="budget_01jz0000000000000000000001",
        amount=Decimal("5.00"),
        spent=Decimal("1.25"),
        committed=Decimal("2.50"),
        asked=Decimal("21.96"),
        resets_at=None,
    )
    answer = problem(need.refusal(), instance="/v1/leases", request_id="req_1")
    error = ProblemError(json.loads(bytes(answer.body)), answer.status_code, "req_1")
    *lines, advice = example.removeprefix("Error executing tool create_lease: ").splitlines()
    *expected, whole_advice = explained(error).splitlines()
    assert lines == expected
    assert whole_advice.startswith(advice.removesuffix("…"))
