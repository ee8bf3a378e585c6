"""One run from one seed: a storm of troubles, then calm, in which everything must come to its end."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import pytest

from app.settings import AccountSettings, load_settings
from app.settings.accounts import account_from_json
from tests.simulation.agents import Agents
from tests.simulation.cloud import NATURES, Cloud, Machine, Nature, Violation
from tests.simulation.database import Clocked
from tests.simulation.gpus import TROUBLES as GPU_TROUBLES
from tests.simulation.gpus import GpuWeather
from tests.simulation.group_people import GroupPeople
from tests.simulation.group_promises import GroupPromises
from tests.simulation.hostile import Hostile
from tests.simulation.hostile_promises import HostilePromises
from tests.simulation.ids import virtual_ids
from tests.simulation.machines import REGION
from tests.simulation.people import People
from tests.simulation.processes import GROUPS, INVENTORY, JOBS, LEASES, Grounds, Process
from tests.simulation.promises import Promises
from tests.simulation.restore import Restore
from tests.simulation.scheduler import EPOCH, Scheduler
from tests.simulation.services import without_waits
from tests.simulation.trace import Log, Trace
from tests.simulation.volume_people import VolumePeople, VolumePromises
from tests.simulation.weather import Weather
from workers.lifecycle.batches import company
from workers.observation import leftovers

QUICK: dict[str, Any] = {
    "claim_seconds": 25.0,
    "call_timeout": 8.0,
    "connect_timeout": 2.0,
    "unknown_retry_seconds": 60.0,
    "unreachable_seconds": 20.0,
    "settle_seconds": 150.0,
    "settle_gap_seconds": 25.0,
    "not_found_grace_seconds": 60.0,
    "deadline_grace_seconds": 360.0,
    "rowless_grace_seconds": 180.0,
    "launch_timeout": 90.0,
    "boot_timeout": 120.0,
    "boot_timeout_large": 240.0,
    "max_backoff_seconds": 60.0,
    "cool_off_capacity_seconds": 30.0,
    "cool_off_quota_seconds": 60.0,
    "cool_off_unoffered_seconds": 300.0,
    "inventory_interval": 40.0,
    "inventory_first_interval": 20.0,
    "offerings_interval": 900.0,
}
"""Protocol times cut to a fifth and in proportion, for most seeds: the same things happen in less time."""

AGENTS: dict[str, Any] = {
    "agent": "on",
    "public_url": "https://gpulease.example",
    "proof_seconds": 60.0,
    "sample_seconds": 20,
    "idle_grace_seconds": 40,
}
"""With agents."""

_OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "aws": {},
    "gcp": {"project": "simulated"},
    "azure": {
        "subscription_id": "00000000-0000-0000-0000-000000000000",
        "resource_group": "simulated",
        "subnet_ids": {REGION: "subnet"},
    },
}
_LOOK = 20.0
_PRICES = 10.0
"""Seconds between two readings of prices, where prices move: often enough to fall between admission and launch."""
_MOST_PRICE_MOVES = 120
_WINDOWS = {
    "wrong": "cloud: somebody else's credentials for a while",
    "refusing": "cloud: credentials rejected for a while",
    "listing_empty": "cloud: empty listings for a while",
    "away": "cloud: away for a while",
}

_DUE = f"""
    SELECT extract(epoch FROM due.leases - '{EPOCH}'), extract(epoch FROM due.jobs - '{EPOCH}'),
           extract(epoch FROM due.inventory - '{EPOCH}'), extract(epoch FROM due.groups - '{EPOCH}')
    FROM (
        SELECT (SELECT min(greatest(next_due, held_until)) FROM lease WHERE next_due IS NOT NULL) AS leases,
               (SELECT min(next_due) FROM lease_group WHERE next_due IS NOT NULL) AS groups,
               min(greatest(next_due, held_until)) FILTER (WHERE kind <> 'inventory' AND kind <> ALL('{{unsent}}')) AS jobs,
               min(greatest(next_due, held_until)) FILTER (WHERE kind = 'inventory') AS inventory
        FROM periodic_job) due
    """
"""The second at which a lease, a job, an inventory and a group is due next. `unsent`: notices, where nobody sends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`violation`: None when all was well. `lines`: the last of the trace. `seconds` are simulated. `events`: by kind."""

    seed: int
    violation: str | None
    digest: str
    lines: tuple[str, ...]
    seconds: float
    machines: int
    events: tuple[tuple[str, int], ...]


class World:
    """Everything of one run."""

    def __init__(self, clocked: Clocked, seed: int, scheduler: Scheduler, **weather: float) -> None:
        clocked.renew(seed)
        self._seed = seed
        self._clocked = clocked
        self.scheduler, random = scheduler, scheduler.random
        self.scheduler.due = self._due
        self.trace = Trace(self.scheduler)
        usually, drawn = random.random(), Weather.drawn(random)
        of_gpus = {name: weather.pop(name) for name in GPU_TROUBLES & weather.keys()}
        self._weather = replace(drawn, **weather)
        usual = usually < self._weather.usual
        prices = {"prices_interval": _PRICES} if self._weather.prices_move else {}
        gpus = Random(f"GPUs of {seed}")  # their own: a seed without agents runs as before there were any
        has_agents = gpus.random() < self._weather.agents
        settings = {**({} if usual else QUICK), **(AGENTS if has_agents else {"agent": "off"}), **prices}
        self._settings = load_settings(worker_threads=1, **settings)
        self._storm = random.uniform(400, 1000) * (2.0 if usual else 1.0) * self._weather.length
        batching = Random(f"clouds of {seed}").random() < self._weather.batching
        natures = random.sample(
            [nature for nature in NATURES if nature.batch > 1 or not batching], random.randint(1, 2)
        )
        self._clouds = {nature.provider: self._cloud(nature) for nature in natures}
        self._grounds = Grounds(
            scheduler=self.scheduler,
            clocked=clocked,
            trace=self.trace,
            settings=self._settings,
            accounts={nature.provider: _account(nature) for nature in natures},
            clouds=self._clouds,
            weather=self._weather,
            listed=self._listed,
            ending=self._ending,
            rebooted=self._rebooted,
        )
        self._due_query = _DUE.replace("{unsent}", "{}" if has_agents else "{notices}")
        self._agents = Agents(self._grounds, replace(GpuWeather.drawn(gpus), **of_gpus), gpus) if has_agents else None
        self._people = People(self._grounds, seed, self._storm)
        self._groups = GroupPeople(self._grounds, self._people, seed, self._storm)
        self._volumes = VolumePeople(self._grounds, self._people, seed, self._storm)
        self._hostile = Hostile(self._grounds, seed, self._people, self._groups, self._agents, self._storm)
        for cloud in self._clouds.values():
            self._arrange(cloud)
        roles = [LEASES] * random.randint(2, 3) + [JOBS] * random.randint(1, 2) + [INVENTORY] * random.randint(1, 2)
        roles += [GROUPS] * self._groups.coordinators
        self._processes = [Process(self._grounds, f"{role}-{n}", role) for n, role in enumerate(roles)]
        restored = self._storm * random.uniform(0.3, 0.9) if random.random() < self._weather.restored else 1e12
        self._restore = restore = Restore(self._grounds, self._people, self._processes, restored)
        self.promises = Promises(self._grounds, restore)
        self._volume_promises = VolumePromises(self._grounds, restore)
        self._group_promises = GroupPromises(self._grounds, restore)
        self._hostile_promises = HostilePromises(self._grounds, self._hostile, restore)
        clocked.committed = self._committed

    def _cloud(self, nature: Nature) -> Cloud:
        return Cloud(
            name=nature.provider,
            nature=nature,
            scheduler=self.scheduler,
            weather=self._weather,
            tell=self.trace.tell,
            zones=("a", "b"),
            settle=self._settings.settle_seconds,
            grace=self._settings.not_found_grace_seconds,
            runs=self._runs,
            makes=self._makes,
        )

    def _committed(self) -> None:
        self.promises.check_quotas()
        actor = self.scheduler.current
        if actor is not None and actor.name.startswith(GROUPS):
            self._group_promises.check_steps()
        if actor is not None and actor.name.startswith(LEASES):
            self._people.suspension.check()
            self._hostile.check()
            self._hostile_promises.check()
        if actor is not None and actor.name.startswith(JOBS):
            self._people.budgets.check_ended(restored=self._restore.happened)

    def _makes(self, cloud: Cloud, machine: Machine) -> None:
        if self._groups.coordinators:
            self._group_promises.check_made(cloud, machine)

    def _runs(self, machine: Machine) -> None:
        if self._agents is not None:
            self._agents.born(machine)

    def _rebooted(self, machine: Machine) -> None:
        if self._agents is not None:
            self._agents.rebooted(machine)

    def _listed(self, cloud: Cloud, honest: bool, started: float) -> None:
        self.promises.check(cloud, honest, started)
        self._hostile_promises.check_shown()
        if self._groups.coordinators:
            self._group_promises.check_idle()

    def _ending(self, cloud: Cloud, vm_ids: Sequence[str]) -> None:
        self.promises.check_ending(cloud, vm_ids)

    def _due(self) -> dict[str, float]:
        roles = zip((LEASES, JOBS, INVENTORY, GROUPS), self._clocked.texts(self._due_query), strict=True)
        return {role: float(when) for role, when in roles if when is not None}

    def _arrange(self, cloud: Cloud) -> None:
        """Windows of trouble at a whole cloud."""
        weather, random = self._weather, self.scheduler.random
        for name, chance in (
            ("wrong", weather.wrong_credentials),
            ("refusing", weather.refused_credentials),
            ("listing_empty", weather.empty_listings),
            ("away", weather.outage),
        ):
            if random.random() < chance:
                begin = random.uniform(0, self._storm)
                self.scheduler.at(begin, partial(self._turn, cloud, name, on=True))
                self.scheduler.at(begin + random.uniform(5, 400), partial(self._turn, cloud, name, on=False))
        for _ in range(random.randint(0, 6) if weather.no_capacity else 0):
            zone, begin = random.choice(cloud.zones), random.uniform(0, self._storm)
            self.scheduler.at(begin, partial(cloud.empty_zones.add, zone))
            self.scheduler.at(begin + random.uniform(30, 600), partial(cloud.empty_zones.discard, zone))

        if random.random() < weather.scarce:
            cloud.room = {zone: random.randint(2, 9) for zone in cloud.zones}
            self.scheduler.at(random.uniform(0, 1.5 * self._storm), cloud.room.clear)
        for _ in range(int(_MOST_PRICE_MOVES * weather.prices_move)):
            self.scheduler.at(random.uniform(0, self._storm), cloud.move_prices)

    def _turn(self, cloud: Cloud, name: str, *, on: bool) -> None:
        self.trace.tell(f"{cloud.name}: {name} {'begins' if on else 'is over'}")
        if on:
            self.scheduler.count(_WINDOWS[name])
        setattr(cloud, name, on)

    def run(self) -> None:
        """Raises Violation."""
        self.scheduler.run(self._storm)
        self._calm()
        end = self._storm + 3600 + 6 * self._settings.settle_seconds
        while self.promises.open() or self._volume_promises.open():
            if self.scheduler.now > end:
                raise Violation(
                    f"not over {end - self._storm:.0f} s after the storm: {'; '.join(self.promises.open() + self._volume_promises.open())}"
                )
            self.scheduler.run(self.scheduler.now + _LOOK)
        self.promises.settle_accounts()
        self._volume_promises.settle()
        self._people.budgets.settle()
        if self._grounds.awake_at > self.scheduler.now:
            self.scheduler.run(self._grounds.awake_at + _LOOK)
        self._hostile_promises.settle()

    def _calm(self) -> None:
        self.trace.tell("calm")
        self._weather = self._grounds.weather = self._weather.calm()
        for cloud in self._clouds.values():
            cloud.weather = self._weather
            cloud.wrong = cloud.refusing = cloud.listing_empty = cloud.away = False
            cloud.empty_zones.clear()
            cloud.room.clear()
        self._people.let_launch()
        self._people.suspension.lift()
        self._people.end_most(within=200.0)
        self._groups.end_most(within=200.0)
        self._volumes.end_all()

    def outcome(self, violation: str | None) -> Outcome:
        machines = sum(len(cloud.machines) for cloud in self._clouds.values())
        return Outcome(
            seed=self._seed,
            violation=violation,
            digest=self.trace.digest,
            lines=tuple(self.trace.lines),
            seconds=self.scheduler.now,
            machines=machines,
            events=tuple(sorted(self.scheduler.events.items())),
        )


def _account(nature: Nature) -> AccountSettings:
    own = _OWN_SETTINGS[nature.provider]
    return account_from_json({"name": nature.provider, "provider": nature.provider, "regions": [REGION], **own})


@contextmanager
def drawn_from(random: Random) -> Iterator[None]:
    """What the program draws by itself comes from the seed, and nothing waits for the real clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leftovers, "random", random)
        patch.setattr(company, "_sweep_at", _sweeps_by_itself)
        yield


def _sweeps_by_itself(*_: Any) -> None:
    """A simulated sweeper wakes when a lease is due: it needs no timer of the real clock."""


@contextmanager
def told_by(trace: Trace) -> Iterator[None]:
    """The program's log lines go into the trace."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("workers.") and hasattr(module, "log"):
                patch.setattr(module, "log", Log(trace))
        yield


def simulate(clocked: Clocked, seed: int, **weather: float) -> Outcome:
    """Runs one seed to its end. `weather`: what is not left to the seed."""
    scheduler = Scheduler(Random(seed))
    with virtual_ids(scheduler, seed):
        world = World(clocked, seed, scheduler, **weather)
        violation: str | None = None
        with told_by(world.trace), drawn_from(scheduler.random), without_waits():
            try:
                world.run()
            except Violation as broken:
                violation = str(broken)
            finally:
                scheduler.stop()
                clocked.abandon()
    return world.outcome(violation)
