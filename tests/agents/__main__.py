"""`python -m tests.agents`: an agent with a key of 5 USD spends over MCP what it can, then its process is killed.

The stack is one of its own. Exits with 1 when the agent spent more than its budget, or when anything of it is left.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil

from app.domain.tags import TENANT
from app.local.waiting import wait_until
from bench import ending
from tests.agents import greedy
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import PATIENCE, Stack, running
from tests.harness.databases import ROOT
from tests.reports import FOLDER, Table, report

GPUS = 2000
_PAUSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`seconds`: how long the agent lives. `ttl`: the term of each of its leases, in seconds."""

    budget: Decimal
    seconds: float
    ttl: int


@dataclass(frozen=True, slots=True)
class Agent:
    """The process and the file of its calls."""

    process: psutil.Popen
    said: Path

    def kill(self) -> bool:
        """SIGKILL to the agent alone. True when its MCP server ends by itself."""
        servers = self.process.children(recursive=True)
        self.process.kill()
        self.process.wait(PATIENCE)
        _, alive = psutil.wait_procs(servers, timeout=PATIENCE)
        return bool(servers) and not alive

    def calls(self) -> list[dict[str, Any]]:
        """Every complete line."""
        return [json.loads(line) for line in self.said.read_text().splitlines(keepends=True) if line.endswith("\n")]


def main(arguments: Sequence[str]) -> int:
    """0 when everything is as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__)
    parser.add_argument("--budget", type=Decimal, default=Decimal("5.00"), help="USD of the agent's key")
    parser.add_argument("--seconds", type=float, default=150.0, help="after which the agent is killed")
    parser.add_argument("--ttl", type=int, default=60, help="seconds of each lease")
    parser.add_argument("--report", type=Path, default=FOLDER / "agents.json", help="the file for the evidence")
    given = vars(parser.parse_args(arguments))
    path, asked = given.pop("report"), Asked(**given)
    ending.on_request()
    with (
        tempfile.TemporaryDirectory(prefix="gpulease-agents-") as folder,
        running(Path(folder), "--workers", "2", "--clouds", "aws") as stack,
        Operator(stack.credentials.api_url, stack.credentials.operator_key) as operator,
        Cloud(stack.credentials.cloudsim_url) as cloud,
    ):
        operator.wait_for_offerings("aws")
        with operator.tenant("agents", GPUS) as tenant:
            found = spree(tenant, cloud, stack, Path(folder), asked)
    wrong = judge(found, asked)
    figures = {name: value for name, value in found.items() if not isinstance(value, list)}
    report(
        path,
        {"asked": given, **found, "wrong": wrong},
        Table(title=f"an agent with {asked.budget} USD, killed", columns=("", ""), rows=list(figures.items())),
        Table(title="faults", columns=("what is not as it has to be",), rows=[[line] for line in wrong or ["nothing"]]),
    )
    return 1 if wrong else 0


def spree(tenant: Tenant, cloud: Cloud, stack: Stack, folder: Path, asked: Asked) -> dict[str, Any]:
    """What the agent did, what it cost, and what is left when every lease had the time to end."""
    key = _key(tenant, asked.budget)
    with _agent(stack, key["secret"], folder / "said", asked.ttl) as agent:
        wait_until(lambda: agent.process.poll() is not None, timeout=asked.seconds, poll=_PAUSE)
        died_early = agent.process.poll() is not None
        at_kill = {"live leases when killed": len(tenant.leases("!terminal"))}
        server_ended = not died_early and agent.kill()
    # nobody releases anything: terms, caps and the budget end what the agent left
    longest = 2 * asked.ttl + PATIENCE
    wait_until(lambda: not tenant.leases("!terminal"), timeout=longest, poll=_PAUSE)
    wait_until(lambda: not cloud.vms(TENANT, tenant.id, alive=True), timeout=PATIENCE, poll=_PAUSE)
    leases = [lease for lease in tenant.leases() if lease["key_id"] == key["id"]]
    (budget,) = [item for item in tenant.items("/v1/budgets") if item["scope"]["key_id"] == key["id"]]
    calls = agent.calls()
    errors = [call["error"] for call in calls if call["error"]]
    return {
        "calls": len(calls),
        "leases": len(leases),
        "refused by the budget": sum("budget_exceeded" in error for error in errors),
        **at_kill,
        "agent died early": died_early,
        "MCP server ended by itself": server_ended,
        "cost of the leases": str(sum(Decimal(lease["cost"]["accrued"]) for lease in leases)),
        "spent of the budget": budget["spent"],
        "committed of the budget": budget["committed"],
        "leases left": len([lease for lease in leases if not lease["terminal"]]),
        "VMs left": len(cloud.vms(TENANT, tenant.id, alive=True)),
        "resources left": len(cloud.resources_of_tenant(tenant.id)),
        "other errors": [error for error in errors if "budget_exceeded" not in error],
    }


def judge(found: Mapping[str, Any], asked: Asked) -> list[str]:
    """What is not as it has to be, a sentence each."""
    cost, spent = Decimal(found["cost of the leases"]), Decimal(found["spent of the budget"])
    faults = {
        "the agent died before it was killed": found["agent died early"],
        "the budget refused nothing: the agent asked for too little": not found["refused by the budget"],
        "the agent had no lease when it was killed": not found["live leases when killed"],
        "the MCP server outlived the agent": not found["MCP server ended by itself"],
        f"the leases cost {cost} of {asked.budget} USD": cost > asked.budget,
        f"the budget shows {spent} of {asked.budget} USD as spent": spent > asked.budget,
        "the agent spent less than half of its budget": cost < asked.budget / 2,
        "the budget still holds a commitment": Decimal(found["committed of the budget"]),
        **{f"{name}: {found[name]}": found[name] for name in ("leases left", "VMs left", "resources left")},
    }
    return [fault for fault, is_so in faults.items() if is_so]


def _key(tenant: Tenant, budget: Decimal) -> dict[str, Any]:
    body = {"name": "agent", "role": "member", "budget": f"{budget:f}"}
    made = tenant.http.post(f"/v1/tenants/{tenant.id}/keys", json=body)
    made.raise_for_status()
    key: dict[str, Any] = made.json()
    return key


@contextmanager
def _agent(stack: Stack, key: str, said: Path, ttl: int) -> Iterator[Agent]:
    environment = {**os.environ, "GPULEASE_URL": stack.credentials.api_url, "GPULEASE_KEY": key}
    argv = [sys.executable, "-m", greedy.__name__, str(ttl)]
    with said.open("w") as output, (said.with_name("errors")).open("w") as errors:
        process = psutil.Popen(argv, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
    try:
        yield Agent(process, said)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
