"""A hostile tenant. It holds every secret of its VMs, sends what it likes with them, and switches VMs off from inside.

What no such tenant may change is judged by `hostile_promises`, and by what holds for the leases of all others.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import product
from random import Random
from typing import Any

import orjson
from sqlalchemy import insert, select

from app.db.core.ids import new_id
from app.db.schema.tables import gpu_benchmark, lease, tenant
from app.db.tenancy.quota_limits import set_limits
from app.domain.ids import LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import VmState
from app.domain.tags import TENANT
from app.services.errors import ServiceError
from app.services.leases.changes import LeaseChanges
from app.services.leases.idleness import LeaseIdleness
from app.services.leases.requests import CreateLease
from app.services.preconditions import IfMatch
from app.services.principal import Principal, Role
from tests.simulation.agents import Agents, gpus_of
from tests.simulation.cloud import TYPES, Machine, Violation
from tests.simulation.gpus import Fault
from tests.simulation.group_people import GroupPeople
from tests.simulation.machines import REGION
from tests.simulation.people import People
from tests.simulation.processes import Grounds
from tests.simulation.services import attempt, context, principal
from tests.simulation.suspension import Suspension

_LEASES = ((1, 3), (0, 2))
"""At once, twice in a run: the fewest and the most."""
_ACTS = 80
_NEWEST = 8
"""It acts as one of its newest VMs, or of those that have just ended."""
_OF_ALIVE = 0.9
_CAP = Decimal(50)
_AHEAD = 4
"""It names the GPUs of VMs to come too: those that it had in a VM of its own once."""
_MOST_GPUS = 64
TFLOPS = (60.0, 61.0)
"""What the VMs of two other tenants have measured before the run."""


class Hostile:
    """Everything that happens within `seconds` is arranged at once. The random numbers are its own.

    `tenant_id` None: this seed has no such tenant. `agents` None: its VMs have no agent, and it only switches them off.
    """

    def __init__(
        self,
        grounds: Grounds,
        seed: int,
        people: People,
        groups: GroupPeople,
        agents: Agents | None,
        seconds: float,
    ) -> None:
        self._grounds, self._people, self._agents = grounds, people, agents
        self._random = random = Random(f"hostile tenant of {seed}")
        self.tenant_id: TenantId | None = None
        self._suspension: Suspension | None = None
        if random.random() >= grounds.weather.hostile:
            return
        self.tenant_id = TenantId(new_id("tenant"))
        grounds.forgers = frozenset({self.tenant_id})
        terms = {"max_ttl_seconds": 86400, "max_total_seconds": 864000}
        people.do(insert(tenant).values(id=self.tenant_id, name=self.tenant_id, **terms))
        people.do(set_limits(self.tenant_id, {"gpus": Decimal(40), "leases": Decimal(10)}))
        people.do(insert(gpu_benchmark).values(list(self._measured_before())))
        self._suspension = Suspension(grounds, f"hostile tenant of {seed}", [self.tenant_id], seconds)
        begin = random.uniform(5, seconds * 0.4)
        for fewest, most in _LEASES:
            grounds.scheduler.at(random.uniform(begin, 2 * begin), partial(self._create, random.randint(fewest, most)))
        if groups.coordinators:
            chance = Random(f"groups of the hostile tenant of {seed}")
            grounds.scheduler.at(chance.uniform(begin, 2 * begin), partial(self._create_group, groups))
        for _ in range(_ACTS):
            grounds.scheduler.at(random.uniform(begin, seconds), self._act)

    def _measured_before(self) -> Iterator[dict[str, Any]]:
        """Benchmarks of two other tenants: their versions count."""
        versions = {"agent": "1.0", "driver_version": "580", "libraries": {}, "counted": True}
        for account, kind, n in product(self._grounds.clouds, TYPES, range(4)):
            yield {
                **versions,
                "attempt_id": f"before-{account}-{kind}-{n}",
                "uuid": f"GPU-before-{account}-{kind}-{n}",
                "lease_id": "before",
                "n": 1,
                "tenant_id": self._people.tenants[n % 2],
                "provider": account,
                "account": account,
                "region": REGION,
                "zone": "a",
                "instance_type": kind,
                "bf16_tflops": TFLOPS[n % 2],
            }

    def check(self) -> None:
        """After each transaction of a worker: while it is suspended it gets no VM."""
        if self._suspension is not None:
            self._suspension.check()

    # --- its leases ---------------------------------------------------------------------------------------

    @property
    def _principal(self) -> Principal:
        return principal(Role.MEMBER, self.tenant_id)

    def _create(self, count: int) -> None:
        """A few equal ones, which may come into one launch batch."""
        random = self._random
        wish = {**self._people.wish(), "gpu": None, "instance_types": [random.choice(sorted(TYPES))]}
        wish |= {"market": random.choice(["on_demand", "spot"]), "max_price_per_hour": None}
        wish |= {"on_interruption": random.choice(["end", "replace", "replace"])}
        if self._agents is not None:
            wish |= {"proof": "auto", "benchmark": "quick", "on_gpu_failure": random.choice(["replace", "end"])}
        ttl = random.randint(300, 1500)
        request = replace(LeaseRequest.from_json(wish), name=None, ttl_seconds=ttl, wait_seconds=900)
        new = CreateLease(tenant_id=None, request=request, max_cost=_CAP, startup_script=None)
        self._people.send(self._principal, new, count)

    def _create_group(self, groups: GroupPeople) -> None:
        self._grounds.scheduler.count("hostile: group requested")
        groups.create(self._principal, _CAP)

    def _machines(self, *, own: bool) -> list[Machine]:
        clouds = self._grounds.clouds.values()
        every = (machine for cloud in clouds for machine in cloud.machines.values() if not machine.copied)
        return [machine for machine in every if (machine.tags[TENANT] == self.tenant_id) is own]

    # --- what it does -------------------------------------------------------------------------------------

    def _act(self) -> None:
        if self._random.random() < 0.15:
            self._ask_for_more()
            return
        machines = self._machines(own=True)
        if not machines:
            return
        alive = [machine for machine in machines if machine.alive]
        machine = self._random.choice(alive if alive and self._random.random() < _OF_ALIVE else machines[-_NEWEST:])
        acts: list[Callable[[Machine], None]] = [self._switch_off]
        if self._agents is not None and machine.agent is not None:
            acts = [*acts, *[self._prove] * 5, *[self._sample] * 2, *[self._prove_and_measure] * 2]
        self._random.choice(acts)(machine)

    def _switch_off(self, machine: Machine) -> None:
        """As root in the VM: the cloud shows a shut-down from inside."""
        if machine.state is not VmState.RUNNING:
            return
        self._grounds.scheduler.count("hostile: VM switched off")
        machine.reason = {"code": "Client.InstanceInitiatedShutdown", "message": "shut down from inside"}
        for cloud in self._grounds.clouds.values():
            if machine in cloud.machines.values():
                cloud.end(machine, "its tenant switches it off")

    def _token(self, machine: Machine) -> str:
        """Of this VM, or of any other one whose token its secrets open."""
        agent = machine.agent or {}
        return str(self._random.choice([agent["token"], *agent.get("opens", ())]))

    def _prove(self, machine: Machine) -> None:
        """Broken GPUs, which others have or will have. One report or several in a row."""
        kind = machine.kind
        token = self._token(machine)
        for _ in range(self._random.choice([1, 1, 1, 5])):
            self._send("forged proof", self._send_proof(token, self._forged(kind), broken=True))

    def _prove_and_measure(self, machine: Machine) -> None:
        """A good proof before that of the VM, and a benchmark that no GPU reaches, or one at the limit."""
        token = self._token(machine)
        self._send("good proof", self._send_proof(token, gpus_of(machine, Fault.NONE), broken=False))
        gpus = gpus_of(machine, Fault.NONE)
        tflops = self._random.choice([1.0, 130.0, 99999.0])
        versions = self._random.choice(
            [{"agent": "x", "driver_version": "999"}, {"agent": "1.0", "driver_version": "580"}]
        )
        benchmark = {**versions, "gpus": [{"uuid": gpu["uuid"], "bf16_tflops": tflops} for gpu in gpus]}
        self._send("benchmark", self._send_samples(token, gpus, benchmark))

    def _sample(self, machine: Machine) -> None:
        """Idle or busy, with health that nothing supports, of any number of GPUs."""
        token = self._token(machine)
        self._send("forged samples", self._send_samples(token, self._forged(machine.kind), None))

    def _forged(self, kind: str) -> list[dict[str, Any]]:
        """As many broken GPUs as the VM has, or far more."""
        random, (gpu, _) = self._random, TYPES[kind]
        count = gpu.count if random.random() < 0.8 else _MOST_GPUS
        machines = [machine.id for machine in self._machines(own=False) if self._is_unproven(machine)]
        for cloud in self._grounds.clouds.values():
            machines += [f"{cloud.name}-{len(cloud.machines) + ahead}" for ahead in range(1, _AHEAD)]
        others = [f"GPU-{machine}-{n}" for machine in machines for n in range(gpu.count)]
        invented = [f"GPU-invented-{random.random()}" for _ in range(count)]
        uuids = random.sample(others if count <= len(others) and random.random() < 0.8 else [*others, *invented], count)
        return [
            {
                "index": index,
                "uuid": uuid,
                "model": f"NVIDIA {gpu.model}",
                "memory_mib": gpu.memory_gib * 1024,
                "remap_failed": random.random() < 0.5,
                "recovery_action": random.choice(["none", "none", "reset"]),
            }
            for index, uuid in enumerate(uuids)
        ]

    @staticmethod
    def _is_unproven(machine: Machine) -> bool:
        return machine.alive and (machine.gpus is None or not machine.gpus.delivered)

    # --- calls --------------------------------------------------------------------------------------------

    def _send(self, what: str, call: Coroutine[Any, Any, None]) -> None:
        attempt(self._grounds, "hostile", what, call)

    async def _send_proof(self, token: str, gpus: list[dict[str, Any]], *, broken: bool) -> None:
        assert self._agents is not None
        forged = [{**gpu, "matmul": "failed"} for gpu in gpus] if broken else gpus
        proof = {**self._agents.report_of(f"boot {self._random.random()}"), "gpus": forged, "xids": []}
        await self._agents.prove(token, proof)

    async def _send_samples(self, token: str, gpus: list[dict[str, Any]], benchmark: dict[str, Any] | None) -> None:
        assert self._agents is not None
        random, now = self._random, self._grounds.scheduler.time.timestamp()
        utilization = random.choice([0, 100])
        known = ("uuid", "memory_mib", "remap_failed", "recovery_action")
        shown = [{"utilization": utilization, **{name: gpu[name] for name in known}} for gpu in gpus]
        body = {
            "version": 1,
            "agent": "hostile",
            "boot_id": "hostile",
            "samples": [{"at": now - 10 + n, "gpus": shown} for n in range(10)],
            "xids": [{"code": 79, "gpu": None, "at": None}] if benchmark is None and random.random() < 0.5 else [],
            "benchmark": benchmark,
        }
        await self._agents.accept(token, orjson.dumps(body))

    def _ask_for_more(self) -> None:
        """More time for one of its leases. While it is suspended the answer is no."""
        found = select(lease.c.id).where(lease.c.tenant_id == self.tenant_id, lease.c.ended_at.is_(None))
        rows = self._people.do(found.order_by(lease.c.id))[0].all()
        status = self._people.do(select(tenant.c.status).where(tenant.c.id == self.tenant_id))[0].scalar()
        if not rows:
            return
        lease_id = LeaseId(self._random.choice(rows).id)
        until = self._grounds.scheduler.time + timedelta(seconds=self._random.uniform(60, 900))
        ways = (partial(self._people.extended, member=self._principal, until=until), self._uncapped, self._kept)
        for way in ways:
            answer = attempt(self._grounds, "hostile", "given more time", way(lease_id))
            if status == "suspended" and not isinstance(answer, ServiceError):
                raise Violation(f"{lease_id} was given more time, although its tenant is suspended")

    async def _uncapped(self, lease_id: LeaseId) -> Any:
        """Its spend cap becomes higher each time."""
        higher = {"max_cost": _CAP + int(self._grounds.scheduler.now)}
        return await LeaseChanges(context(self._grounds)).update(self._principal, lease_id, higher, IfMatch())

    async def _kept(self, lease_id: LeaseId) -> Any:
        keep = LeaseIdleness(context(self._grounds)).keep(self._principal, lease_id, 600, if_match=IfMatch(), key=None)
        async with keep as reply:
            return reply.row
