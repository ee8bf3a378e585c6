"""The agents of simulated machines: they report GPUs to the program's own services, or on the console, or not at all."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import orjson

from app.domain.gpus.reports import console_mac
from app.domain.leases import VmState
from app.services.errors import InvalidToken, RateLimited
from app.services.gpus.agents import AgentService
from app.services.gpus.benchmarks import GpuBenchmarkService
from app.services.gpus.health import GpuHealthService
from app.services.gpus.proofs import ProofService
from app.services.gpus.samples import GpuSampleService
from tests.simulation.cloud import TYPES, Machine
from tests.simulation.gpus import Fault, GpuTruth, GpuWeather
from tests.simulation.processes import Grounds
from tests.simulation.services import complete, context

_MOST_UNSENT = 10
_PROOF_TRIES = 4


class Agents:
    """Follows every machine with an agent from its boot to its end. `random` is the agents' own."""

    def __init__(self, grounds: Grounds, weather: GpuWeather, random: Random) -> None:
        self._grounds = grounds
        self.weather = weather
        self._random = random
        self._period = float(grounds.settings.sample_seconds)
        services = context(grounds)
        health = GpuHealthService(services)
        self._agents = AgentService(services)
        benchmarks = GpuBenchmarkService(services)
        self._proofs = ProofService(services, health)
        self._samples = GpuSampleService(services, self._agents, health, benchmarks)

    def born(self, machine: Machine) -> None:
        """A machine runs: its agent begins, if its launch had one."""
        if machine.agent is None or machine.copied:
            return
        machine.gpus = self._draw()
        self._grounds.scheduler.count(f"GPUs: {machine.gpus.fault}")
        self._later(self._random.uniform(0.5, 8), partial(self._boot, machine, 1))

    def rebooted(self, machine: Machine) -> None:
        """The boot after a reboot has a proof of its own."""
        truth = machine.gpus
        if truth is None or machine.state is not VmState.RUNNING:
            return
        truth.boot += 1
        if truth.fault is Fault.WORN or (truth.fault is Fault.RESET and truth.reset_helps):
            truth.fault = Fault.NONE
        boot = truth.boot
        self._later(self._random.uniform(2, 20), partial(self._boot, machine, boot))

    def _draw(self) -> GpuTruth:
        random, weather, never = self._random, self.weather, float("inf")
        faults = [fault for fault in Fault if fault is not Fault.NONE]
        now = self._grounds.scheduler.now
        return GpuTruth(
            fault=random.choice(faults) if random.random() < weather.fault else Fault.NONE,
            never_reports=random.random() < weather.never_reports,
            no_network=random.random() < weather.no_network,
            dies_at=now + random.expovariate(1 / 300) if random.random() < weather.dies else never,
            fails_at=now + random.expovariate(1 / 300) if random.random() < weather.fails_later else never,
            idles=random.random() < weather.idle,
            reset_helps=random.random() < 0.5,
        )

    # --- the proof ----------------------------------------------------------------------------------------

    def _boot(self, machine: Machine, boot: int) -> None:
        truth = machine.gpus
        if truth is None or truth.never_reports or not self._runs(machine, boot):
            return
        proof = self._proof(machine, truth)
        truth.console.append(console_line(machine.agent or {}, proof))
        truth.printed.append((self._grounds.scheduler.now, truth.fails))
        if not truth.no_network and (machine.agent or {})["url"] is not None:
            self._send_proof(machine, boot, proof, fails=truth.fails, tries=_PROOF_TRIES)

    def _send_proof(self, machine: Machine, boot: int, proof: dict[str, Any], *, fails: bool, tries: int) -> None:
        """Some requests are lost; the agent repeats them."""
        truth = machine.gpus
        if truth is None or not tries or not self._runs(machine, boot):
            return
        if self._random.random() < 0.2:
            again = partial(self._send_proof, machine, boot, proof, fails=fails, tries=tries - 1)
            self._later(self._random.uniform(1, 4), again)
            return
        self._grounds.trace.tell(f"{machine.id} sends the proof of boot {boot}, {'failing' if fails else 'good'}")
        try:
            complete(self.prove((machine.agent or {})["token"], proof))
        except InvalidToken:
            return
        except RateLimited:  # the program has not seen the VM run
            self._grounds.scheduler.count("agent: proof refused, sent too early")
            again = partial(self._send_proof, machine, boot, proof, fails=fails, tries=tries)
            self._later(self._random.uniform(1, 4), again)
            return
        self._grounds.scheduler.count("agent: proof sent")
        truth.delivered.append((self._grounds.scheduler.now, fails))
        self._later(self._period * self._random.random(), partial(self._sample, machine, boot))

    async def prove(self, token: str, proof: dict[str, Any]) -> None:
        """As `POST /v1/agent/proof`. Raises ServiceError."""
        agent = await self._agents.find(token)
        if agent is None:
            raise InvalidToken
        await self._proofs.accept(agent, proof, "simulated")

    def _proof(self, machine: Machine, truth: GpuTruth) -> dict[str, Any]:
        return {
            **self.report_of(f"{machine.id} boot {truth.boot}"),
            "gpus": gpus_of(machine, truth.fault),
            "xids": _xids(truth.fault),
        }

    def report_of(self, boot_id: str) -> dict[str, Any]:
        """What a proof at this moment has besides its GPUs and Xids."""
        return {
            "version": 1,
            "agent": "simulated",
            "at": self._grounds.scheduler.time.timestamp(),
            "boot_id": boot_id,
            "vendor": "nvidia",
            "source": "nvml",
            "driver_version": "580.1",
            "cuda_version": "13.0",
            "errors": [],
        }

    # --- samples ------------------------------------------------------------------------------------------

    def _sample(self, machine: Machine, boot: int) -> None:
        truth, scheduler = machine.gpus, self._grounds.scheduler
        if truth is None or not self._runs(machine, boot) or scheduler.now > truth.dies_at:
            return
        if scheduler.now > truth.fails_at and truth.fault is Fault.NONE:
            truth.fault = self._random.choice([Fault.XID, Fault.RESET, Fault.WORN])
            scheduler.count(f"GPUs: {truth.fault} of an active lease")
        idle = truth.idles and self._random.random() > 0.005
        gpus = [
            {
                "uuid": gpu["uuid"],
                "utilization": 0 if idle else 80,
                "memory_mib": gpu["memory_mib"],
                "memory_used_mib": 3,
                "remap_failed": gpu["remap_failed"],
                "recovery_action": gpu["recovery_action"],
            }
            for gpu in gpus_of(machine, truth.fault)
        ]
        truth.unsent = [*truth.unsent, {"at": scheduler.time.timestamp(), "gpus": gpus}][-_MOST_UNSENT:]
        if self._random.random() >= self.weather.gap:
            self._send_samples(machine, truth)
        else:
            truth.unsent = truth.unsent if self._random.random() < 0.5 else []
        pause = self._period * self._random.uniform(0.98, 1.02)
        silent = self._random.random() < self.weather.gap
        self._later(pause * (self._random.uniform(2, 5) if silent else 1.0), partial(self._sample, machine, boot))

    def _send_samples(self, machine: Machine, truth: GpuTruth) -> None:
        body = {
            "version": 1,
            "agent": "simulated",
            "boot_id": f"{machine.id} boot {truth.boot}",
            "samples": truth.unsent,
            "xids": _xids(truth.fault),
            "benchmark": None,
        }
        try:
            complete(self.accept((machine.agent or {})["token"], orjson.dumps(body)))
        except InvalidToken:
            truth.unsent = []
            return
        except RateLimited:
            return
        self._grounds.scheduler.count("agent: samples sent")
        idle = [0.0] * TYPES[machine.kind][0].count
        truth.accepted += [(one["at"], [gpu["utilization"] for gpu in one["gpus"]] == idle) for one in truth.unsent]
        truth.unsent = []

    async def accept(self, token: str, body: bytes) -> None:
        """As `POST /v1/agent/samples`. Raises ServiceError."""
        try:
            await self._samples.accept(token, body)
        finally:
            await self._samples.write_counts()

    def _runs(self, machine: Machine, boot: int) -> bool:
        truth = machine.gpus
        return machine.state is VmState.RUNNING and truth is not None and truth.boot == boot

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._grounds.scheduler.after(seconds, act)


def console_line(agent: Mapping[str, Any], proof: Mapping[str, Any]) -> str:
    """As the agent prints it."""
    line = {"mac": console_mac(agent["token"], proof), "proof": proof}
    return f"gpulease-proof {orjson.dumps(line).decode()}"


def gpus_of(machine: Machine, fault: Fault) -> list[dict[str, Any]]:
    """The GPUs of a machine with this fault, as its proof names them."""
    gpu, _ = TYPES[machine.kind]
    count = gpu.count - 1 if fault is Fault.MISSING else gpu.count
    return [
        {
            "index": index,
            "uuid": f"GPU-{machine.id}-{index}",
            "model": "NVIDIA H100" if fault is Fault.MODEL else f"NVIDIA {gpu.model}",
            "memory_mib": gpu.memory_gib * 1024,
            "remap_failed": fault is Fault.REMAP and index == 0,
            "recovery_action": "reset" if fault is Fault.RESET and index == 0 else "none",
        }
        for index in range(count)
    ]


def _xids(fault: Fault) -> list[dict[str, Any]]:
    codes = {Fault.XID: 79, Fault.WORN: 63}
    return [{"code": codes[fault], "gpu": None, "at": None}] if fault in codes else []
