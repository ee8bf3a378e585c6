"""The agents of simulated VMs: processes up to a number. For the other VMs cloudsim makes the proof itself.

Those send no samples. They report again when `/_sim/gpus` changes their GPUs.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cloudsim.gpus.devices import AMD, Device, devices
from cloudsim.gpus.process import AGENT, CONFIG, AgentProcess
from cloudsim.gpus.proofs import console_line, proof
from cloudsim.gpus.states import state
from cloudsim.user_data import Files, files, is_near
from cloudsim.world import HEALTHY, AgentMode, Gpu, GpuCondition, Vm, VmState, World

_LOOK_SECONDS = 0.2
_TELL_SECONDS = 5.0
"""How often the load of the GPUs changes behind the fake NVML."""
_TRIES = 5
_PAUSE_SECONDS = 3.0
_CALL_SECONDS = 10.0
_AT_ONCE = 8
_LOADER = re.compile(rb'^URL, DIGEST = "(https?://[^"\\]+)", "([0-9a-f]{64})"$', re.MULTILINE)


@dataclass(eq=False, slots=True)
class _Agent:
    """The agent of one VM. `served`: the boot and the mode that it runs for; None: it does not run yet.

    `reported`: the condition of the GPUs that it has reported, or that its process has received.
    """

    vm: Vm
    files: Files
    config: dict[str, Any]
    served: tuple[float | None, AgentMode] | None = None
    process: AgentProcess | None = None
    reported: GpuCondition = HEALTHY
    reported_at: float = 0.0

    @property
    def target(self) -> tuple[float | None, AgentMode]:
        return self.vm.booted_at, self.vm.gpus.agent


class GpuAgents:
    """Runs over a world until it is cancelled. VMs of an earlier run have an agent again, and prove themselves again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = 0
        self._booting: dict[str, Vm] = {}
        self._agents: dict[str, _Agent] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Looks after the agents. Ends their processes when it is cancelled."""
        with tempfile.TemporaryDirectory(prefix="cloudsim-gpus-") as folder:
            async with httpx.AsyncClient(timeout=_CALL_SECONDS, trust_env=False) as http:
                try:
                    while True:
                        self._find_booted()
                        for agent in list(self._agents.values()):
                            await self._look_after(agent, Path(folder), http)
                        await asyncio.sleep(_LOOK_SECONDS)
                finally:
                    for task in self._sending:
                        task.cancel()
                    await asyncio.gather(*(a.process.end() for a in self._agents.values() if a.process is not None))

    def _find_booted(self) -> None:
        """VMs that have booted since the last look. VMs are in the order of their launches.

        The agent comes last in a boot. So a VM that never becomes ready has none.
        """
        newest = next(reversed(self._world.vms.values()), None)
        if newest is None or newest.seq < self._seen:
            self._seen, self._booting = 0, {}  # the world was reset
        unseen = itertools.takewhile(lambda vm: vm.seq > self._seen, reversed(self._world.vms.values()))
        self._booting |= {vm.id: vm for vm in reversed(list(unseen))}
        self._seen = newest.seq if newest is not None else 0
        now = self._world.advance() if self._booting or self._agents else 0.0
        for vm in list(self._booting.values()):
            booted = vm.is_ready(now)
            if booted or vm.state not in (VmState.PENDING, VmState.RUNNING):
                del self._booting[vm.id]
            agent = _agent_of(vm) if booted else None
            if agent is not None:
                self._agents[vm.id] = agent

    async def _look_after(self, agent: _Agent, folder: Path, http: httpx.AsyncClient) -> None:
        vm = agent.vm
        if vm.state is not VmState.RUNNING or self._world.vms.get(vm.id) is not vm:
            del self._agents[vm.id]
            await self._end(agent)
        elif agent.served != agent.target:
            await self._end(agent)
            agent.served, agent.reported = agent.target, vm.gpus
            if vm.gpus.agent is not AgentMode.OFF:
                await self._serve(agent, folder, http)
        elif agent.process is not None:
            for line in agent.process.new_lines():
                self._world.print_line(vm, line)
            if agent.reported != vm.gpus or self._world.clock() - agent.reported_at > _TELL_SECONDS:
                self._tell(agent, agent.process)
        elif agent.reported != vm.gpus and vm.gpus.agent is AgentMode.ON:
            agent.reported = vm.gpus
            self._start(self._report(agent, self._proof(agent), http))

    async def _serve(self, agent: _Agent, folder: Path, http: httpx.AsyncClient) -> None:
        """A process, or a proof of cloudsim's own: for AMD, and when there are as many processes as the settings allow."""
        running = sum(other.process is not None for other in self._agents.values())
        is_amd = self._gpu(agent.vm).manufacturer == AMD
        program = agent.files.get(AGENT)
        if running < self._world.settings.gpu_agents and program is not None and not is_amd:
            loaded = await _loaded(program, http)
            if loaded is None:
                return
            root = Path(tempfile.mkdtemp(dir=folder))
            agent.process = AgentProcess(root, {**agent.files, AGENT: loaded})
            agent.reported_at = self._world.clock()
            network = agent.vm.gpus.agent is AgentMode.ON
            await agent.process.start(state(agent.vm, self._devices(agent.vm)), network=network)
        else:
            self._start(self._prove(agent, http))

    def _tell(self, agent: _Agent, process: AgentProcess) -> None:
        agent.reported, agent.reported_at = agent.vm.gpus, self._world.clock()
        process.tell(state(agent.vm, self._devices(agent.vm)))

    async def _end(self, agent: _Agent) -> None:
        if agent.process is not None:
            process, agent.process = agent.process, None
            await process.end()

    def _proof(self, agent: _Agent) -> dict[str, Any]:
        vm = agent.vm
        return proof(vm, self._gpu(vm).manufacturer, self._devices(vm), self._world.clock())

    async def _prove(self, agent: _Agent, http: httpx.AsyncClient) -> None:
        made = self._proof(agent)
        if agent.config.get("serial", True):
            self._world.print_line(agent.vm, console_line(agent.config["token"], made))
        if agent.vm.gpus.agent is AgentMode.ON:
            await self._report(agent, made, http)

    async def _report(self, agent: _Agent, made: dict[str, Any], http: httpx.AsyncClient) -> None:
        """To the API, some times. One of an active lease stands for the samples that the agent would send."""
        vm, url, boot = agent.vm, agent.config.get("url"), agent.served
        if url is None:
            return
        headers = {"Authorization": f"Bearer {agent.config['token']}"}
        async with self._limit:
            for _ in range(_TRIES):
                try:
                    answer = await http.post(f"{url}/v1/agent/proof", json=made, headers=headers)
                except (httpx.HTTPError, httpx.InvalidURL):
                    answer = None
                if (answer is not None and not answer.is_server_error) or agent.target != boot or not vm.alive:
                    return
                await asyncio.sleep(_PAUSE_SECONDS)

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _gpu(self, vm: Vm) -> Gpu:
        return self._world.machine(vm.provider, vm.instance_type).gpu

    def _devices(self, vm: Vm) -> list[Device]:
        return devices(vm.id, self._gpu(vm), vm.gpus, self._world.clock() - vm.launched_at)


def _agent_of(vm: Vm) -> _Agent | None:
    """The agent that the VM's user data ask for. None also where its reports would leave this machine."""
    vm_files = files(vm)
    try:
        config = json.loads(vm_files[CONFIG])
        near = AGENT in vm_files and bool(config["token"]) and is_near(config)
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return _Agent(vm, vm_files, config) if near else None


async def _loaded(program: bytes, http: httpx.AsyncClient) -> bytes | None:
    """The agent that a loader in the user data fetches, or the program itself. None: it could not be fetched.

    A loader never runs here: it would replace a program of this machine.
    """
    loader = _LOADER.search(program)
    if loader is None:
        return program
    url, digest = loader[1].decode(), loader[2].decode()
    try:
        answer = await http.get(url)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return answer.content if hashlib.sha256(answer.content).hexdigest() == digest else None
