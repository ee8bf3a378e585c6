"""Leases of one cloud that live through a scenario of the crash matrix together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex

import httpx

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Operator, Tenant
from tests.e2e.truth import own_id

TYPES: Mapping[str, str] = {"aws": "g5.xlarge", "gcp": "g2-standard-4", "azure": "Standard_NC24ads_A100_v4"}
REGIONS: Mapping[str, str] = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}
ACCOUNTS: Mapping[str, str] = {"aws": "sim", "gcp": "sim-gcp", "azure": "sim-azure"}
ENDED = ("released", "failed")
STUCK_SECONDS = 150.0
"""A lease that has not moved on after so long is left as it is, and judged as stuck in the end."""
MOUNT = "/data"
"""Where VMs mount the volume of their lease."""
POLL = 0.3


@dataclass
class Group:
    """Leases of one cloud that live through one scenario together.

    `waiting`: how many points still wait. `ready`: is told when all leases are there, and answers when they may be launched.
    `restart`: kills the workers, which start anew. `break_off`: the step of a lease that reaches `BREAKS_OFF` fails there.
    `volumes`: the name of the volume that the lease of a name mounts. `wrong`: what the scenario itself has noticed.
    """

    provider: str
    tenant: Tenant
    operator: Operator
    cloud: Cloud
    names: tuple[str, ...]
    waiting: Callable[[], int]
    ready: Callable[[], object]
    restart: Callable[[], object]
    break_off: Callable[[str], object]
    leases: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def create(
        self,
        arm: Callable[[str, str], None] | None = None,
        *,
        before_launch: Callable[[], object] = lambda: None,
        company: int = 0,
        **wish: object,
    ) -> None:
        """One lease for each name; none is launched before `arm(name, lease id)` was called for all, and `before_launch`.

        Each is launched alone, or together with `company` others: a point acts on the lease that it is armed for.
        """
        usual = {"instance_types": [TYPES[self.provider]], "providers": [self.provider], "market": "on_demand"}
        for number, name in enumerate(self.names):
            body = {**usual, "ttl_seconds": 3600, **wish, "labels": {"case": str(number)}}
            if name in self.volumes:
                body["volumes"] = [{"name": self.volumes[name], "path": MOUNT}]
            self.leases[name] = self.tenant.create({**body, "name": name})
            if arm is not None:
                arm(name, self.leases[name])
            for other in range(company):
                with_it = f"{name} with {other}"
                self.leases[with_it] = self.tenant.create({**body, "name": with_it})
        before_launch()
        self.ready()

    def create_groups(self, arm: Callable[[str, str], None] | None = None, *, size: int, **wish: object) -> None:
        """A group of VMs for each name. A point acts on the member that it is armed for, the one with rank 0."""
        lease = {"instance_types": [TYPES[self.provider]], "providers": [self.provider], "market": "on_demand"}
        for number, name in enumerate(self.names):
            label = {"labels": {"case": str(number)}}
            terms = {"ttl_seconds": 3600, "wait_seconds": 600}
            body = {"name": f"group-{token_hex(4)}", "size": size, "lease": {**lease, **terms, **label}, **wish}
            answer = self.tenant.http.post("/v1/groups", json=body)
            assert answer.is_success, answer.text
            members = {member["rank"]: member["lease_id"] for member in answer.json()["members"]}
            if arm is not None:
                arm(name, members[0])
            self.leases |= {name if rank == 0 else f"{name} {rank}": lease_id for rank, lease_id in members.items()}
        self.ready()

    def seen(self) -> list[Json]:
        """The leases as they are."""
        mine = set(self.leases.values())
        return [lease for lease in self.tenant.leases() if lease["id"] in mine]

    def until(self, *states: str, seconds: float = STUCK_SECONDS) -> bool:
        """Waits until all are in one of these states, or over. Returns whether they are."""
        return self.until_all(lambda lease: lease["state"] in states, seconds=seconds)

    def until_all(self, done: Callable[[Json], bool], *, seconds: float = STUCK_SECONDS) -> bool:
        def all_done() -> bool:
            return all(done(lease) or lease["state"] in ENDED for lease in self.seen())

        return wait_until(all_done, timeout=seconds, poll=POLL)

    def until_hit(self, *, at_least: float = 0.0, quiet: float = 45.0) -> None:
        """No point waits any more, or none has been reached for a while."""
        wait_until(lambda: False, timeout=at_least, poll=POLL)
        before = None
        while before is None or self.waiting() < before:
            before = self.waiting()
            wait_until(lambda: self.waiting() == 0, timeout=quiet, poll=POLL)

    def ask(self, change: str, body: Json | None = None) -> None:
        """The same change of all of them, as far as they allow it."""
        for lease_id in self.leases.values():
            answer = self.tenant.http.post(f"/v1/leases/{lease_id}/{change}", json=body)
            assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text

    def release(self) -> None:
        """Whatever became of them."""
        self.want_end()
        self.until(*ENDED)

    def want_end(self) -> None:
        """Asks for the end of all of them."""
        for lease_id in self.leases.values():
            answer = self.tenant.http.delete(f"/v1/leases/{lease_id}")
            assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text

    def vm_ids(self) -> list[str]:
        """The cloud's own ids of the VMs that serve them now."""
        return [own_id(lease) for lease in self.seen() if (lease["placement"] or {}).get("instance_id")]


Arm = Callable[[str, str], None]
Play = Callable[[Group, Arm | None], None]
