"""The real agent in the user data of the three clouds, over the fake NVML: its proof, its samples, its end."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from app.domain.gpus.reports import parse_proof, proofs_on_console
from cloudsim.arm.cloud import AZURE
from cloudsim.control.models import PlantBody
from cloudsim.ec2.cloud import AWS
from cloudsim.gce.cloud import GCP
from cloudsim.gpus.agents import GpuAgents
from cloudsim.server import Simulation
from cloudsim.settings import Settings
from cloudsim.world import HEALTHY, AgentMode, GpuCondition, Vm, World
from cloudsim.world.gpus import RecoveryAction
from tests.cloudsim.ssh.test_guest import kept
from tests.workers.providers.samples import spec
from workers.providers.types import AgentConfig

CLOUDS = {"aws": AWS, "gcp": GCP, "azure": AZURE}
PLACES = {
    "aws": ("us-east-1", "p4d.24xlarge"),
    "gcp": ("us-central1", "a2-highgpu-8g"),
    "azure": ("eastus", "Standard_NC24ads_A100_v4"),
}
TOKEN = "0123456789abcdef" * 4
PATIENCE = 60.0
Report = tuple[str, dict[str, Any]]


@contextmanager
def api() -> Iterator[tuple[str, list[Report]]]:
    """An API that takes every report: its URL, and the reports."""
    reports: list[Report] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            reports.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", reports
    finally:
        server.shutdown()
        server.server_close()


def launched(world: World, provider: str, url: str, condition: GpuCondition = HEALTHY) -> Vm:
    """A VM whose user data the adapter of its cloud has made."""
    region, kind = PLACES[provider]
    account = CLOUDS[provider].default_account
    body = PlantBody(provider=provider, region=region, instance_type=kind, account=account)
    (vm_id,) = CLOUDS[provider].plant(world, body)
    vm = world.vms[vm_id]
    vm.spec |= kept(provider, spec(agent=AgentConfig(token=TOKEN, url=url, sample_seconds=1)))
    world.set_gpus(vm, condition)
    return vm


@asynccontextmanager
async def agents(world: World) -> AsyncIterator[None]:
    running = asyncio.create_task(GpuAgents(world).run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await asyncio.sleep(0.05)


def children() -> list[psutil.Process]:
    """Agents, among the processes that this one has started."""
    found = psutil.Process().children(recursive=True)
    return [child for child in found if "cloudsim.gpus.child" in command_line(child)]


def command_line(process: psutil.Process) -> list[str]:
    """Empty for a process that has just ended."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("provider", CLOUDS)
async def test_the_real_agent_proves_and_samples_and_ends_with_its_vm(provider: str) -> None:
    world = Simulation(Settings(gpu_agents=1, boot_seconds=0)).world
    with api() as (url, reports):
        vm = launched(world, provider, url)
        count = world.machine(provider, vm.instance_type).gpu.count
        async with agents(world):
            await until(lambda: any(path == "/v1/agent/samples" for path, _ in reports))
            path, proof = reports[0]
            assert path == "/v1/agent/proof"
            read = parse_proof(proof)
            assert (read.agent == "cloudsim", len(read.gpus)) == (False, count)
            await until(lambda: vm.console)
            (on_console,) = proofs_on_console(vm.printed, TOKEN)
            assert on_console["boot_id"] == proof["boot_id"]
            sample = next(report for path, report in reports if path == "/v1/agent/samples")["samples"][0]
            assert all(gpu["utilization"] > 5 for gpu in sample["gpus"])
            assert len(children()) == 1
            world.end(vm)
            await until(lambda: not children())


async def test_a_broken_vm_says_so_and_a_reboot_begins_anew() -> None:
    world = Simulation(Settings(gpu_agents=1, boot_seconds=0)).world
    with api() as (url, reports):
        vm = launched(world, "aws", url, GpuCondition(visible=7, xids=(79,), remap_failed=True))
        async with agents(world):
            await until(lambda: reports)
            proof = parse_proof(reports[0][1])
            assert (len(proof.gpus), [xid.code for xid in proof.xids]) == (7, [79])
            assert [gpu.remap_failed for gpu in proof.gpus] == [True] + [False] * 6
            world.reboot(vm)
            await until(lambda: [path for path, _ in reports].count("/v1/agent/proof") == 2)
            again = parse_proof([report for path, report in reports if path == "/v1/agent/proof"][1])
            assert (again.boot_id == proof.boot_id, again.xids) == (False, ())
    assert not children()


async def test_without_a_network_the_proof_is_on_the_console_alone() -> None:
    world = Simulation(Settings(gpu_agents=1, boot_seconds=0)).world
    with api() as (url, reports):
        real = launched(world, "aws", url, GpuCondition(agent=AgentMode.NO_NETWORK))
        made = launched(world, "aws", url, GpuCondition(agent=AgentMode.NO_NETWORK))
        silent = launched(world, "aws", url, GpuCondition(agent=AgentMode.OFF))
        async with agents(world):
            await until(lambda: real.console and made.console)
            assert [len(proofs_on_console(vm.printed, TOKEN)) for vm in (real, made, silent)] == [1, 1, 0]
    assert reports == []


async def test_vms_beyond_the_number_are_proven_without_a_process() -> None:
    world = Simulation(Settings(gpu_agents=0, boot_seconds=0)).world
    with api() as (url, reports):
        vms = [launched(world, provider, url) for provider in CLOUDS]
        launched(world, "aws", "http://198.51.100.1")  # cloudsim calls nobody outside this machine
        async with agents(world):
            await until(lambda: len(reports) == len(vms))
            assert children() == []
    proofs = [parse_proof(report) for _, report in reports]
    assert {proof.agent for proof in proofs} == {"cloudsim"}
    assert sorted(len(proof.gpus) for proof in proofs) == [1, 8, 8]


async def test_a_proof_of_cloudsim_is_that_of_the_agent() -> None:
    """So that a test with the one holds for the other."""
    world = Simulation(Settings(gpu_agents=1, boot_seconds=0)).world
    with api() as (url, reports):
        condition = GpuCondition(visible=3, xids=(48,), recovery_action=RecoveryAction.RESET, remap_failed=True)
        vm = launched(world, "aws", url, condition)
        async with agents(world):
            await until(lambda: reports)
        world.settings = world.settings.changed(gpu_agents=0)
        async with agents(world):
            await until(lambda: any(report["agent"] == "cloudsim" for _, report in reports))
    real, made = (next(r for _, r in reports if (r["agent"] == "cloudsim") is own) for own in (False, True))
    volatile = {"agent", "at", "xids", "errors", "source"}
    assert {k: v for k, v in made.items() if k not in volatile | {"gpus"}} == {
        k: v for k, v in real.items() if k not in volatile | {"gpus"}
    }
    assert [xid["code"] for xid in made["xids"]] == [xid["code"] for xid in real["xids"]]
    for mine, its in zip(made["gpus"], real["gpus"], strict=True):
        assert mine | {"matmul": None} == its | {"matmul": None}
    assert vm.alive
