"""The crash matrix: each failpoint with each action at each cloud, in real processes.

A rehearsal finds out which scenarios reach which point. Then cases of one scenario run side by side, each with a lease of its
own that its point is armed for; whatever they do to the workers, all share. A case whose point was not reached is tried again in
another scenario that reaches it. The truth of the clouds and the database judges.
"""

import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier

from app.domain.tags import ATTEMPT, BATCH, LEASE, TENANT
from app.local.waiting import wait_until
from tests.crash_matrix.group import ACCOUNTS, ENDED, Arm, Group
from tests.crash_matrix.hostile import HOSTILE_SECONDS, Hostility
from tests.crash_matrix.scenarios import BREAKS_OFF, SCENARIOS
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import Stack
from tests.e2e.truth import differences, launched_together
from tests.failpoints.actions import TRACE, Action, arm, resumed

HANG_SECONDS = 12.0
"""Longer than a claim of the stack, so that somebody else goes on meanwhile."""
LATE_SECONDS = 120.0
"""A late answer waits so long at most for another worker to finish; after that it does not count."""
SECONDS: Mapping[Action, float] = {Action.LATE: LATE_SECONDS, Action.HOSTILE: HOSTILE_SECONDS}
LATE_TOGETHER = 8
"""Late cases side by side at each cloud: each keeps a thread and a place in its account's bulkhead from everybody else."""
CYCLE_SECONDS = 20.0
"""Within so long several inventories are complete, whatever the machine does: what is an orphan then stays one."""
Forged = Callable[[], list[str]]
ANY = "any"
"""Points of a process that are reached for no lease and no account."""
_GPUS = 100_000
_BEGINNING = next(iter(SCENARIOS))
"""In this scenario workers start anew: some points are reached once in the life of a process."""


@dataclass(frozen=True, order=True)
class Place:
    """Where a point is reached. `of_lease`: for a lease; else for an account, or (ANY) for none. `also`: in these scenarios too."""

    scenario: str
    point: str
    provider: str
    of_lease: bool
    also: tuple[str, ...] = ()


@dataclass
class Case:
    """One point, one cloud, one action. `wrong`: what the truth says against it.

    `over`: a late answer arrives when its lease has ended, else when another worker has let it rest. `number`: of a repeated
    case, from 1.
    """

    place: Place
    action: Action
    over: bool = False
    number: int = 0
    hit: bool = False
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scenario = self.place.scenario

    def move_on(self, tries: int) -> None:
        """To be tried, after so many tries, in another scenario that reaches the point, if there is one."""
        scenarios = (self.place.scenario, *self.place.also)
        self.scenario = scenarios[tries % len(scenarios)]

    @property
    def name(self) -> str:
        numbered = f" #{self.number}" if self.number else ""
        return f"{self.place.point} {self.action} {self.place.provider}{numbered}"


@dataclass(frozen=True)
class Stage:
    """A running stack, and who uses it."""

    stack: Stack
    operator: Operator
    cloud: Cloud
    clouds: Sequence[str]

    @property
    def folder(self) -> Path:
        return self.stack.failpoints

    def groups(self, tenant: Tenant, names: Mapping[str, Sequence[str]], waiting: Callable[[], int]) -> list[Group]:
        """One for each cloud. Launches are stopped until all leases of all groups are there."""
        self.operator.stop_launches(stopped=True)
        ready = Barrier(len(self.clouds), action=lambda: self.operator.stop_launches(stopped=False))
        return [
            Group(
                provider,
                tenant,
                self.operator,
                self.cloud,
                tuple(names[provider]),
                waiting=waiting,
                ready=ready.wait,
                restart=lambda: self.stack.kill("worker"),
                break_off=lambda lease_id: arm(self.folder, BREAKS_OFF, Action.EXCEPTION, key=lease_id),
            )
            for provider in self.clouds
        ]

    @contextmanager
    def hostility(self, batch: Sequence[Case], tenant: Tenant) -> Iterator[Forged]:
        """Within the block a hostile tenant acts at the points of its cases. The value: what it has changed for others."""
        if not any(case.action is Action.HOSTILE for case in batch):
            yield list
            return
        with self.operator.tenant(f"hostile {secrets.token_hex(4)}", _GPUS) as other:
            hostile = Hostility(self.stack, self.cloud, self.clouds, other, tenant)
            with hostile.acting():
                yield hostile.changed

    def play(self, scenario: str, groups: Sequence[Group], armed: Arm | None = None, *, anew: bool) -> Sequence[Group]:
        """Lives through a scenario. `anew`: with workers that have just started, where it is the first."""
        if anew and scenario == _BEGINNING:
            self.stack.kill("worker", "inventory")
        pool = ThreadPoolExecutor(len(groups))
        try:
            list(pool.map(lambda group: SCENARIOS[scenario](group, armed), groups))
        finally:
            pool.shutdown(wait=False)  # a run that is asked to end does not wait for what its stack will never do
        return groups


# --- rehearsal --------------------------------------------------------------------------------------------


def rehearse(stage: Stage, scenarios: Sequence[str] = tuple(SCENARIOS)) -> set[Place]:
    """Where each point is reached, by cloud: in the scenario that comes first, and in others."""
    found: dict[tuple[str, str], Place] = {}
    trace = stage.folder / TRACE
    for scenario in scenarios:
        trace.touch()
        with stage.operator.tenant(f"rehearsal of {scenario}", _GPUS) as tenant:
            names = {provider: [provider] for provider in stage.clouds}
            groups = stage.play(scenario, stage.groups(tenant, names, lambda: 0), anew=True)
            wait_until(lambda: _is_over(stage, tenant), timeout=CYCLE_SECONDS, poll=0.3)
        lines = trace.read_text(encoding="utf-8").splitlines()
        trace.unlink()
        whose = {lease_id: group.provider for group in groups for lease_id in group.leases.values()}
        for line in dict.fromkeys(lines):
            point, _, key = line.partition(" ")
            place = _place(scenario, point, key, whose)
            if place is not None:
                first = found.setdefault((place.point, place.provider), place)
                if scenario not in (first.scenario, *first.also):
                    found[place.point, place.provider] = replace(first, also=(*first.also, scenario))
    return set(found.values())


def _is_over(stage: Stage, tenant: Tenant) -> bool:
    """Nothing is left whose removal the next scenario would count as its own."""
    return not (tenant.leases("!terminal") or stage.cloud.resources_of_tenant(tenant.id))


def _place(scenario: str, point: str, key: str, whose: dict[str, str]) -> Place | None:
    accounts = {account: provider for provider, account in ACCOUNTS.items()}
    if key in whose:
        return Place(scenario, point, whose[key], of_lease=True)
    if key in accounts:
        return Place(scenario, point, accounts[key], of_lease=False)
    return Place(scenario, point, ANY, of_lease=False) if not key else None


def drawn(places: Iterable[Place], actions: Sequence[Action], every: int, seed: int) -> list[Case]:
    """One of `every` cases. As many as there are places, or fewer: each place once at most, with some action."""
    chance = random.Random(seed)
    shuffled = sorted(places)
    chance.shuffle(shuffled)
    orders = [chance.sample(actions, len(actions)) for _ in shuffled]
    cases = [
        Case(place, order[rank], over=order[rank] is Action.LATE and chance.random() < 0.5)
        for rank in range(len(actions))
        for place, order in zip(shuffled, orders, strict=True)
        if order[rank] is not Action.LATE or may_be_late(place)
    ]
    return sorted(cases[: -(-len(cases) // every)], key=lambda case: (case.place, case.action))


def may_be_late(place: Place) -> bool:
    """Whether somebody has a claim there, which can be lost: on a lease, or on a job of an account."""
    return place.of_lease or place.provider != ANY


# --- the matrix -------------------------------------------------------------------------------------------


def batches(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Cases that may run side by side: of one scenario and one kind, at most `size`.

    A point of a process has one action at a time, and a case with a lease of its own another one than others.
    """

    def kind(case: Case) -> tuple[str, bool, bool, str]:
        return (
            case.scenario,
            case.place.of_lease,
            case.action is Action.LATE,
            "" if case.place.of_lease else case.action,
        )

    for one in dict.fromkeys(map(kind, cases)):
        alike = [case for case in cases if kind(case) == one]
        clouds = len({case.place.provider for case in alike})
        together = min(size, LATE_TOGETHER * clouds) if one[2] else size
        yield from (alike[start : start + together] for start in range(0, len(alike), together))


def run(stage: Stage, batch: Sequence[Case]) -> float:
    """Runs the cases and judges them. Answers the seconds it took."""
    began = time.monotonic()
    scenario = batch[0].scenario
    labelled = {f"case {number}": case for number, case in enumerate(batch)}
    flags: dict[str, Path] = {}

    def armed(label: str, key: str) -> None:
        case = labelled.get(label)
        if case is not None:
            seconds = SECONDS.get(case.action, HANG_SECONDS)
            flags[label] = arm(stage.folder, case.place.point, case.action, key=key, seconds=seconds, over=case.over)

    with stage.operator.tenant(f"{scenario} {secrets.token_hex(4)}", _GPUS) as tenant:
        _set_budgets(tenant)
        with_lease = {label: case.place.provider for label, case in labelled.items() if case.place.of_lease}
        for label in labelled.keys() - with_lease:
            armed(label, ACCOUNTS.get(labelled[label].place.provider, ""))

        def waiting() -> int:
            return sum(not flag.exists() for flag in flags.values())

        def play(some: Mapping[str, Sequence[str]], arm_it: Arm | None) -> Sequence[Group]:
            return stage.play(scenario, stage.groups(tenant, some, waiting), arm_it, anew=not with_lease)

        with stage.hostility(batch, tenant) as forged:
            groups = [*play(_names(stage.clouds, with_lease), armed)]
            before = len(flags) + 1
            while not with_lease and 0 < waiting() < before:
                # what is reached for an account is reached one after the other: each costs its job a pause
                before = waiting()
                groups += play({one: [f"{one} {before}"] for one in stage.clouds}, None)
            late = [flags[label] for label, case in labelled.items() if case.action is Action.LATE]
            wait_until(lambda: all(map(_has_gone_on, late)), timeout=LATE_SECONDS)
        judge(stage, tenant, labelled, groups, forged)
    for label, case in labelled.items():
        case.hit = _counts(flags[label], case.action)
    disarm(stage.folder)
    return time.monotonic() - began


def _has_gone_on(flag: Path) -> bool:
    """A point that was never reached, or whose late answer has arrived."""
    return not flag.exists() or resumed(flag).exists()


def _counts(flag: Path, action: Action) -> bool:
    """Whether the point acted; a late one only if another worker had finished by then."""
    if action is not Action.LATE or not flag.exists():
        return flag.exists()
    done = resumed(flag)
    return done.exists() and bool(json.loads(done.read_text(encoding="utf-8"))["late"])


def _names(clouds: Iterable[str], with_lease: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Names of leases by cloud: those of its cases, or one lease that nothing is armed for."""
    return {
        cloud: [label for label, provider in with_lease.items() if provider == cloud] or [cloud] for cloud in clouds
    }


def _set_budgets(tenant: Tenant) -> None:
    """Budgets that nothing exceeds, whose periods may end at any point."""
    for period in ("day", "month"):
        body = {"scope": {"kind": "tenant"}, "period": period, "amount": "1000000", "when_exceeded": "end"}
        tenant.http.post("/v1/budgets", json=body).raise_for_status()


def _committed(tenant: Tenant) -> list[str]:
    budgets = tenant.items("/v1/budgets")
    return [f"budget: {one['committed']} of a {one['period']}" for one in budgets if float(one["committed"])]


def disarm(folder: Path) -> None:
    """No point is armed any more."""
    for file in folder.iterdir():
        if file.name != TRACE:
            file.unlink(missing_ok=True)


def judge(
    stage: Stage, tenant: Tenant, labelled: Mapping[str, Case], groups: Sequence[Group], forged: Forged = list
) -> None:
    """Each case by its own lease; what cannot be told apart is held against all of them."""

    def found() -> list[str]:
        return differences(stage.operator, stage.cloud, stage.stack.credentials.database_url)

    wait_until(
        lambda: not (found() or tenant.used() or _committed(tenant) or stage.cloud.resources_of_tenant(tenant.id)),
        timeout=CYCLE_SECONDS,
    )
    shared = [
        *found(),
        *forged(),
        *(f"quota: {resource} {used}" for resource, used in tenant.used().items()),
        *_committed(tenant),
        *(line for group in groups for line in group.wrong),
        *(f"stuck: {one['id']} is {one['state']}" for one in tenant.volumes("creating", "available", "deleting")),
        *(f"leftover: {thing}" for thing in stage.cloud.resources_of_tenant(tenant.id)),
        *(f"twin: {vm_id} is in a batch and belongs to no attempt" for vm_id in _beyond_slots(stage, tenant)),
    ]
    leases = {label: lease_id for group in groups for label, lease_id in group.leases.items()}
    states = {lease["id"]: lease["state"] for lease in tenant.leases()}
    for label, case in labelled.items():
        lease_id = leases.get(label)
        case.wrong += [*shared, *(_wrong(stage.cloud, lease_id, states.get(lease_id, "lost")) if lease_id else ())]


def _beyond_slots(stage: Stage, tenant: Tenant) -> list[str]:
    """VMs that a call for several VMs made beyond those of its slots, alive or ended.

    Compute Engine also shows a VM for which it had no capacity. It ended when it was launched.
    """
    slots = launched_together(stage.stack.credentials.database_url)
    made = [vm for vm in stage.cloud.vms(TENANT, tenant.id) if vm["ended_at"] != vm["launched_at"]]
    return [vm["id"] for vm in made if BATCH in vm["tags"] and vm["id"] not in slots]


def _wrong(cloud: Cloud, lease_id: str, state: str) -> list[str]:
    """What is wrong with a lease that must be over by now."""
    vms = [vm for vm in cloud.vms_of(lease_id) if vm["token"]]
    attempts = Counter((vm["tags"][LEASE], vm["tags"][ATTEMPT]) for vm in vms)
    return [
        *([] if state in ENDED else [f"stuck: {lease_id} is {state}"]),
        *(f"orphan: {vm['id']} of {lease_id}" for vm in vms if vm["alive"]),
        *(f"twin: {key} has {count} VMs" for key, count in attempts.items() if count > 1),
    ]
