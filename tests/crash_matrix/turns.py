"""Cases in turn: each arms its point for whoever reaches it next, and asks for four leases at once, or a group of four.

Cases come one after the other, while the leases of earlier ones recover. So hardly any kill takes another case with it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import cycle
from secrets import token_hex

from app.local.waiting import wait_until
from tests.crash_matrix.group import TYPES, Group
from tests.crash_matrix.hostile import HOSTILE_SECONDS
from tests.crash_matrix.matrix import HANG_SECONDS, SECONDS, Case, Place, Stage, disarm, judge
from tests.e2e.cloud import Json
from tests.failpoints.actions import Action, arm, resumed

TOGETHER = 4
"""Leases of a case."""
_LAUNCHED_TOGETHER = "launched_together"
_TURN_SECONDS = 15.0
"""A point that nobody has reached after so long is disarmed, and the case is tried again."""
_GPUS = 100_000


def repeated(points: Sequence[str], clouds: Sequence[str], actions: Sequence[Action], count: int) -> list[Case]:
    """`count` cases of each of the points at each cloud with each action. An answer cannot be late here."""
    return [
        Case(Place("in turn", point, cloud, of_lease=True), action, number=number + 1)
        for cloud in clouds
        for point in points
        for action in actions
        if action is not Action.LATE
        for number in range(count)
    ]


def is_leaders(case: Case) -> bool:
    """Whether one lease of a batch reaches the point for all. Which one it is, is not known before, and a late answer is
    armed for one lease."""
    return case.place.scenario == _LAUNCHED_TOGETHER and case.place.of_lease and case.action is not Action.LATE


def turns(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Cases of one cloud that one tenant lives through."""
    for cloud in dict.fromkeys(case.place.provider for case in cases):
        there = [case for case in cases if case.place.provider == cloud]
        yield from (there[start : start + size] for start in range(0, len(there), size))


def run_in_turn(stage: Stage, batch: Sequence[Case]) -> float:
    """Runs the cases and judges them. Answers the seconds it took."""
    began = time.monotonic()
    stage = replace(stage, clouds=[batch[0].place.provider])
    labelled = {f"case {number}": case for number, case in enumerate(batch)}
    with stage.operator.tenant(f"in turn {token_hex(4)}", _GPUS) as tenant:
        (group,) = stage.groups(tenant, {stage.clouds[0]: ()}, lambda: 0)
        group.ready()
        with stage.hostility(batch, tenant) as forged:
            asks = cycle([_ask_at_once, _ask_for_group])
            for (label, case), ask in zip(labelled.items(), asks, strict=False):
                case.hit = _turn(stage, case, partial(ask, group, label))
            group.until("active")
            group.release()
        judge(stage, tenant, labelled, [group], forged)
    disarm(stage.folder)
    return time.monotonic() - began


def _turn(stage: Stage, case: Case, ask: Callable[[], None]) -> bool:
    flag = arm(stage.folder, case.place.point, case.action, seconds=SECONDS.get(case.action, HANG_SECONDS))
    ask()
    wait_until(flag.exists, timeout=_TURN_SECONDS, poll=0.05)
    disarm_one = stage.folder / case.place.point
    disarm_one.unlink(missing_ok=True)
    hit = flag.exists()
    if hit and case.action is Action.HOSTILE:
        wait_until(resumed(flag).exists, timeout=HOSTILE_SECONDS)
    resumed(flag).unlink(missing_ok=True)
    flag.unlink(missing_ok=True)
    return hit


def _ask_at_once(group: Group, label: str) -> None:
    """Leases that are asked for at the same time, so that they are launched together."""
    body = {**_wish(group), "labels": {"case": label.rpartition(" ")[2]}}
    names = [label, *(f"{label} with {other}" for other in range(1, TOGETHER))]
    with ThreadPoolExecutor(TOGETHER) as asking:
        made = asking.map(lambda name: group.tenant.create({**body, "name": name}), names)
    group.leases |= dict(zip(names, made, strict=True))


def _ask_for_group(group: Group, label: str) -> None:
    name = f"group-{token_hex(4)}"
    wish = {"name": name, "size": TOGETHER, "placement": "same_zone", "lease": {**_wish(group), "wait_seconds": 600}}
    members = group.tenant.create_group_at_any_rate(wish, name)["members"]
    for member in members:
        key = label if member["rank"] == 0 else f"{label} {member['rank']}"
        group.leases[key] = str(member["lease_id"])


def _wish(group: Group) -> Json:
    return {
        "instance_types": [TYPES[group.provider]],
        "providers": [group.provider],
        "market": "on_demand",
        "ttl_seconds": 3600,
    }
