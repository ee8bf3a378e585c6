"""A cloud in memory: machines, what is left of them, and the lies that real clouds tell about them for a while.

It acts on the scheduler's clock and draws from its random numbers. The truth is here; `adapter` shows what a caller sees.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.domain.leases import VmState
from app.domain.offerings import LISTED_MARKETS, Gpu, Interconnect, Market
from app.domain.tags import BATCH, attempt_key
from app.domain.tokens import launch_name, slot_token
from tests.simulation.gpus import GpuTruth
from tests.simulation.scheduler import Scheduler
from tests.simulation.weather import Weather
from workers.providers.errors import (
    InsufficientCapacity,
    NotOffered,
    PriceTooLow,
    ProviderQuotaExceeded,
    Refused,
    TokenConflict,
)

if TYPE_CHECKING:
    from tests.simulation.volumes import Disk

ALIVE = (VmState.PENDING, VmState.RUNNING, VmState.STOPPED, VmState.ENDING)
_TOKEN_LIFE = 86_400.0
_MOST_TOGETHER = 1000
_REFUSALS: tuple[type[Refused], ...] = (ProviderQuotaExceeded, NotOffered, InsufficientCapacity, PriceTooLow)

TYPES: Mapping[str, tuple[Gpu, Decimal]] = {
    "one": (Gpu(model="A10G", count=1, memory_gib=24, interconnect=Interconnect.PCIE), Decimal(1)),
    "four": (Gpu(model="A10G", count=4, memory_gib=24, interconnect=Interconnect.PCIE), Decimal(4)),
    "two": (Gpu(model="L4", count=2, memory_gib=24, interconnect=Interconnect.PCIE), Decimal("1.4")),
}
"""Instance types: their GPUs, and USD per hour on demand."""
_SPOT_SHARE = Decimal("0.4")
_CENT = Decimal("0.01")


def list_price(kind: str, market: Market) -> Decimal:
    """What the price list says for ever."""
    _, price = TYPES[kind]
    return price if market is Market.ON_DEMAND else price * _SPOT_SHARE


class Violation(BaseException):
    """A promise is broken. No handler of the program may swallow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """How a kind of cloud behaves. `forgets`: seconds after its end for which a VM still shows.

    `conflicts`: a repeated create is refused as `TokenConflict` instead of answered with the same VM. `stands`: a VM that is
    refused late stays as a stopped one. `batch`: the most VMs of one create call. `names_slots`: a VM of a batch is known
    by its name, and not by its launch index.
    """

    provider: str
    forgets: float
    conflicts: bool
    stands: bool
    lists_all_regions: bool
    batch: int = 1
    names_slots: bool = False


NATURES = (
    Nature(provider="aws", forgets=3600.0, conflicts=False, stands=False, lists_all_regions=False, batch=6),
    Nature(
        provider="gcp",
        forgets=0.0,
        conflicts=True,
        stands=False,
        lists_all_regions=True,
        batch=12,
        names_slots=True,
    ),
    Nature(provider="azure", forgets=0.0, conflicts=True, stands=True, lists_all_regions=True),
)


@dataclass(eq=False, slots=True, kw_only=True)
class Machine:
    """One VM, with its whole history. `late`: it was made after anybody could still expect it. `copied`: somebody made it
    with the tags of another one. `key`: the attempt that it was made for, whatever its tags are. `batch`: the batch and
    the slot that it shows.
    """

    id: str
    key: tuple[str, int]
    zone: str
    kind: str
    market: str
    tags: dict[str, str]
    token: str
    born: float
    lists_from: float
    gets_from: float
    late: bool
    states: list[tuple[float, VmState]]
    copied: bool = False
    batch: tuple[str, int] | None = None
    agent: Mapping[str, Any] | None = None
    """What its launch gave the agent in it: `token` and `url`, in a batch what opens the others' reports. None: it has no agent."""
    gpus: GpuTruth | None = None
    """None: before it runs, and without an agent."""
    ready_from: float = float("inf")
    reason: dict[str, str | None] | None = None
    interrupted: bool = False
    refusal: type[Refused] | None = None
    notice_at: float | None = None
    gone_at: float | None = None
    end_asked: bool = False
    shown: int = 0
    """Listings that have shown it, or not shown it, since what they tell should have had a consequence."""
    stale: int = 0
    """Listings in a row that have shown it with an earlier deadline than its lease's."""

    @property
    def state(self) -> VmState:
        return self.states[-1][1]

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    def state_at(self, when: float) -> VmState:
        return next((state for at, state in reversed(self.states) if at <= when), self.states[0][1])


@dataclass(eq=False, slots=True, kw_only=True)
class Thing:
    """A volume or an address that costs money, with or without its VM."""

    id: str
    machine: Machine
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launched:
    """What a token has made, by slot. A call for one VM has one slot."""

    machines: dict[int, Machine]
    params: Mapping[str, Any]
    at: float


@dataclass(eq=False)
class Cloud:
    """One account's region of one cloud. `tell`: writes a line into the trace. `runs`: is told of a machine that has started,
    and `makes` of one that is about to be made. `room`: the most VMs that live in a zone; a zone without an entry has no such limit.
    """

    name: str
    nature: Nature
    scheduler: Scheduler
    weather: Weather
    tell: Callable[[str], None]
    zones: tuple[str, ...]
    settle: float
    grace: float
    runs: Callable[[Machine], None]
    makes: Callable[["Cloud", Machine], None]
    machines: dict[str, Machine] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    disks: dict[str, "Disk"] = field(default_factory=dict)
    attaching: "Callable[[Disk, Machine], None] | None" = None
    deleting: "Callable[[Disk], None] | None" = None
    empty_zones: set[str] = field(default_factory=set)
    room: dict[str, int] = field(default_factory=dict)
    prices: dict[tuple[str, Market], Decimal] = field(default_factory=dict)
    wrong: bool = False
    introduced: bool = False
    """Somebody has asked whose the credentials are. The first answer is never wrong: gpulease trusts it for good."""
    refusing: bool = False
    listing_empty: bool = False
    away: bool = False
    batch_at: float = float("-inf")
    """When the newest create call of a batch arrived."""
    _tokens: dict[tuple[str, str], _Launched] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prices |= {(kind, market): list_price(kind, market) for kind in TYPES for market in LISTED_MARKETS}

    # --- acts -------------------------------------------------------------------------------------------------

    def launch(self, params: Mapping[str, Any], issued: float) -> Machine:
        """The create call, landing now; it was issued at `issued`. Tokens hold within a zone."""
        before = self._launched_before(params)
        if before is not None:
            return before[0]
        self._may_refuse(params["zone"])
        key = attempt_key(params["tags"])
        assert key is not None
        machine = self._create(params, issued, key=key, token=params["token"], agent=params.get("agent"))
        self._remember(params, {0: machine})
        return machine

    def launch_batch(self, params: Mapping[str, Any], issued: float) -> dict[int, Machine]:
        """The create call of a batch, landing now. Returns its machines by slot, fewer than slots where no more fit."""
        before = self._launched_before(params)
        if before is not None:
            return before
        self._may_refuse(params["zone"])
        random, slots = self.scheduler.random, params["slots"]
        fit = min(len(slots), self._free(params["zone"]))
        if random.random() < self.weather.partial:
            fit = random.randint(1, fit)
        filled = sorted(random.sample(range(len(slots)), fit)) if self.nature.names_slots else range(fit)
        made = {index: self._create_slot(params, issued, slots[index]) for index in filled}
        self.scheduler.count("batch: filled in part" if fit < len(slots) else "batch: filled")
        self._remember(params, made)
        return made

    def _launched_before(self, params: Mapping[str, Any]) -> dict[int, Machine] | None:
        launched = self._tokens.get((params["token"], params["zone"]))
        if launched is None or launched.at + _TOKEN_LIFE <= self.scheduler.now:
            return None
        self.scheduler.count("batch: token used again" if "slots" in params else "cloud: token used again")
        if self.nature.conflicts or launched.params != params:
            raise TokenConflict("exists already", code="AlreadyExists")
        return launched.machines

    def _remember(self, params: Mapping[str, Any], made: dict[int, Machine]) -> None:
        launched = _Launched(machines=made, params=dict(params), at=self.scheduler.now)
        self._tokens[params["token"], params["zone"]] = launched

    def _may_refuse(self, zone: str) -> None:
        """Raises Refused."""
        weather, random = self.weather, self.scheduler.random
        if zone in self.empty_zones or random.random() < weather.no_capacity * 0.3:
            self.scheduler.count("cloud: no capacity")
            raise InsufficientCapacity("no capacity", code="InsufficientInstanceCapacity")
        if random.random() < weather.refused:
            self.scheduler.count("cloud: launch refused")
            raise random.choice(_REFUSALS)("refused", code="Refused")
        if self._free(zone) <= 0:
            self.scheduler.count("cloud: zone full")
            raise InsufficientCapacity("the zone is full", code="InsufficientInstanceCapacity")

    def _free(self, zone: str) -> int:
        if zone not in self.room:
            return _MOST_TOGETHER
        return self.room[zone] - sum(machine.zone == zone for machine in self.living())

    def _create_slot(self, params: Mapping[str, Any], issued: float, slot: Mapping[str, Any]) -> Machine:
        """As user data does it, the VM derives its agent's token from the secret of the batch."""
        name, agent = launch_name(slot["token"]), params["agent"]
        own = self._slot(slot)
        if agent is not None:
            opens = [slot_token(params["secret"], "agent", self._slot(one)) for one in params["slots"]]
            agent = {**agent, "token": slot_token(params["secret"], "agent", own), "opens": opens}
        token = name if self.nature.names_slots else params["token"]
        key, batch = (slot["lease"], slot["n"]), (params["tags"][BATCH], slot["index"])
        return self._create(params, issued, key=key, token=token, agent=agent, batch=batch)

    def _slot(self, slot: Mapping[str, Any]) -> str | int:
        """As a VM of the batch learns it from the metadata service."""
        return launch_name(slot["token"]) if self.nature.names_slots else int(slot["index"])

    def _create(
        self,
        params: Mapping[str, Any],
        issued: float,
        *,
        key: tuple[str, int],
        token: str,
        agent: Mapping[str, Any] | None,
        batch: tuple[str, int] | None = None,
    ) -> Machine:
        now, weather, random = self.scheduler.now, self.weather, self.scheduler.random
        lag = random.uniform(0, 0.8 * self.grace) if random.random() < weather.shows_late else random.uniform(0, 3)
        machine = Machine(
            id=f"{self.name}-{len(self.machines) + 1}",
            key=key,
            zone=params["zone"],
            kind=params["type"],
            market=params["market"],
            tags=dict(params["tags"]),
            token=token,
            born=now,
            lists_from=now + lag,
            gets_from=now + lag * random.random(),
            late=now - issued > self.settle - self.grace,
            states=[(now, VmState.PENDING)],
            agent=agent,
            batch=batch,
        )
        self._no_twin(machine)
        self.makes(self, machine)
        self.machines[machine.id] = machine
        for kind in ("volume", "address"):
            thing = Thing(id=f"{machine.id}-{kind}", machine=machine)
            self.things[thing.id] = thing
        self.scheduler.count("VM: made" if batch is None else "VM: made in a batch")
        self.tell(f"{machine.id} is made for {machine.key[0]}/{machine.key[1]} in {machine.zone}")
        self._live(machine)
        return machine

    def _no_twin(self, new: Machine) -> None:
        for other in self.machines.values():
            if other.copied:
                continue
            if other.key == new.key:
                raise Violation(f"twin: {new.id} is a second VM of attempt {new.key}, after {other.id}")
            if other.alive and other.key[0] == new.key[0] and not (new.late or other.late):
                raise Violation(f"twin: {new.id} of {new.key} is made while {other.id} of {other.key} lives")

    def _live(self, machine: Machine) -> None:
        weather, random, after = self.weather, self.scheduler.random, self.scheduler.after
        if random.random() < weather.refused_late:
            machine.refusal = InsufficientCapacity
            machine.reason = {"code": "NoCapacity", "message": "not made"}
            after(random.uniform(1, 30), lambda: self._refuse(machine))
            return
        if random.random() < weather.never_runs:
            return
        starts = random.uniform(2, 45)
        after(starts, lambda: self.turn(machine, VmState.RUNNING))
        if random.random() >= weather.never_ready:
            machine.ready_from = machine.born + starts + random.uniform(5, 60)
        self._fate(machine, starts)
        if random.random() < weather.copied:
            after(random.uniform(0, 600), lambda: self._copy(machine))

    def _copy(self, machine: Machine) -> None:
        """Somebody launches "more like this" in the cloud's console. The only VM of that call has the index 0."""
        now = self.scheduler.now
        batch = None if machine.batch is None or self.nature.names_slots else (machine.batch[0], 0)
        copy = Machine(
            id=f"{self.name}-{len(self.machines) + 1}",
            key=machine.key,
            zone=machine.zone,
            kind=machine.kind,
            market=machine.market,
            tags=dict(machine.tags),
            batch=batch,
            token=f"copy-{len(self.machines) + 1}",
            born=now,
            lists_from=now,
            gets_from=now,
            late=False,
            states=[(now, VmState.RUNNING)],
            copied=True,
        )
        self.machines[copy.id] = copy
        self.scheduler.count("VM: copied by somebody with its tags")
        self.tell(f"{copy.id} is made by somebody with the tags of {machine.id}")

    def _fate(self, machine: Machine, starts: float) -> None:
        weather, random, after = self.weather, self.scheduler.random, self.scheduler.after
        when = starts + random.expovariate(1 / 400)
        if machine.market == "spot" and random.random() < weather.interrupted:
            after(when, lambda: self._interrupt(machine))
        elif random.random() < weather.vanishes:
            after(when, lambda: self._vanish(machine))
        elif random.random() < weather.stops:
            after(when, lambda: self.turn(machine, VmState.STOPPED))

    def _vanish(self, machine: Machine) -> None:
        if machine.alive:
            self.scheduler.count("VM: ended by somebody else")
        self.end(machine, "ended by somebody else")

    def _refuse(self, machine: Machine) -> None:
        if machine.state is VmState.PENDING:
            self.scheduler.count("VM: refused after acceptance")
            if self.nature.stands:
                self.turn(machine, VmState.STOPPED)
            else:
                self._gone(machine)

    def _interrupt(self, machine: Machine) -> None:
        if machine.state is VmState.RUNNING:
            machine.notice_at = self.scheduler.now
            self.scheduler.count("VM: interrupted")
            machine.interrupted = True
            machine.reason = {"code": "Spot", "message": "taken back"}
            self.scheduler.after(self.scheduler.random.uniform(0, 120), lambda: self.end(machine, "taken back"))

    def end(self, machine: Machine, why: str) -> None:
        """It goes, now or soon."""
        if machine.state in (VmState.GONE, VmState.ENDING):
            return
        self.tell(f"{machine.id} ends: {why}")
        self.turn(machine, VmState.ENDING)
        self.scheduler.after(self.scheduler.random.uniform(0, 40), lambda: self._gone(machine))

    def turn(self, machine: Machine, state: VmState) -> None:
        allowed = {
            VmState.RUNNING: (VmState.PENDING,),
            VmState.STOPPED: (VmState.PENDING, VmState.RUNNING),
            VmState.ENDING: (VmState.PENDING, VmState.RUNNING, VmState.STOPPED),
        }
        if machine.state in allowed[state]:
            machine.states.append((self.scheduler.now, state))
            if state is VmState.RUNNING:
                self.runs(machine)

    def _gone(self, machine: Machine) -> None:
        machine.states.append((self.scheduler.now, VmState.GONE))
        machine.gone_at = self.scheduler.now
        machine.shown = 0
        self.tell(f"{machine.id} is gone")
        for thing in self.things.values():
            if thing.machine is machine and self.scheduler.random.random() >= self.weather.leaves_over:
                thing.gone = True

    def move_prices(self) -> None:
        """Prices of one type or of all go up or down: of spot VMs to up to twice the usual, on demand rarely and less."""
        random = self.scheduler.random
        market = Market.SPOT if random.random() < 0.85 else Market.ON_DEMAND
        least, most = (0.1, 2.0) if market is Market.SPOT else (0.7, 1.4)
        factor = Decimal(random.uniform(least, most))
        for kind in TYPES if random.random() < 0.5 else [random.choice(sorted(TYPES))]:
            price = (list_price(kind, market) * factor).quantize(_CENT)
            self.scheduler.count(f"cloud: price {'falls' if price < self.prices[kind, market] else 'rises'}")
            self.tell(f"{self.name}: {kind} costs {price} {market}")
            self.prices[kind, market] = price

    # --- what there is ----------------------------------------------------------------------------------------

    def living(self) -> Iterator[Machine]:
        return (machine for machine in self.machines.values() if machine.alive)

    def costing(self) -> Iterator[Thing]:
        """What is left of VMs that have gone."""
        return (thing for thing in self.things.values() if not thing.gone and not thing.machine.alive)

    def shows(self, machine: Machine) -> bool:
        """Whether a cloud like this still tells of it."""
        return machine.gone_at is None or machine.gone_at + self.nature.forgets > self.scheduler.now
