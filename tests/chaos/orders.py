"""What is asked for: single leases, bursts of equal ones, and groups, all drawn from one seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench.three_clouds import wishes
from tests.e2e.cloud import Json

_SHARES = (("burst", 0.05), ("group", 0.05))
"""Of the orders. A burst has about seven leases and a group about eleven, so that half of the leases are single ones."""
_BURST = (3, 12)
SMALLEST, LARGEST = 2, 32
"""Members of a group."""
_SPLIT_SHARE = 0.5
"""Of the groups: those that go on with fewer members than their size."""
_PLACEMENTS = ("any", "same_zone", "cluster")
_LOSSES = ("end", "replace", "keep")
_FORM_SECONDS = 60
_GROUP_WAITS = (0, 60, 240)
_CLUSTERED = {"A100", "H100", "g5.xlarge", "g2-standard-4"}
"""What each provider places close together. Compute Engine does not place N1 types so, which have the T4."""


@dataclass(frozen=True)
class Order:
    """Asked for at one moment. `number`: of its first lease. `leases`: how many. `group`: the request, without the lease's name.

    Without a group, `lease` is the request of each lease.
    """

    number: int
    leases: int
    lease: Json
    group: Json | None = None


def orders(seed: int, leases: int) -> Iterator[Order]:
    """Orders of so many leases together; the members of groups count among them."""
    chance = random.Random(seed * 7919)
    every_kind = wishes()
    number = 0
    while number < leases:
        lease, left = next(every_kind), leases - number
        size = _size(chance, left)
        kind = _kind(chance) if left >= SMALLEST else "single"
        if kind == "group":
            yield Order(number, size, lease, _group(chance, number, size, lease))
        elif kind == "burst":
            size = min(left, chance.randint(*_BURST))
            yield Order(number, size, lease)
        else:
            size = 1
            yield Order(number, size, lease)
        number += size


def _kind(chance: random.Random) -> str:
    drawn = chance.random()
    for kind, share in _SHARES:
        if drawn < share:
            return kind
        drawn -= share
    return "single"


def _size(chance: random.Random, most: int) -> int:
    """Each octave from 2 to 32 is as likely as the others."""
    octaves = LARGEST.bit_length() - SMALLEST.bit_length()
    return min(most, round(SMALLEST * 2 ** chance.uniform(0, octaves)))


def _group(chance: random.Random, number: int, size: int, lease: Json) -> Json:
    """A group at one provider's or any provider's offerings. Single leases have names of their own, and members have none."""
    model = lease["gpu"]["model"] if "gpu" in lease else lease["instance_types"][0]
    placements = _PLACEMENTS if model in _CLUSTERED else _PLACEMENTS[:2]
    splits = chance.random() < _SPLIT_SHARE
    return {
        "name": f"group-{number}",
        "size": size,
        "min_size": chance.randint(1, size) if splits else size,
        "placement": chance.choice(placements),
        "interconnect": chance.choice(("none", "preferred")),
        "form_seconds": _FORM_SECONDS,
        "on_member_loss": chance.choice(_LOSSES),
        "lease": {
            **{name: value for name, value in lease.items() if name != "name"},
            "wait_seconds": chance.choice(_GROUP_WAITS),
        },
    }
