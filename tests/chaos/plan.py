"""What happens when: everything drawn from one seed, before anything runs."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

CLOUDS = ("aws", "gcp", "azure")
ASKING_SHARE = 0.75
"""Of the time: in which leases are asked for."""
_STORMY_SHARE = 0.9
"""Of the time: in which faults begin. The last of them find leases under way that earlier ones have held up."""
_OUTAGE_SECONDS = (2.0, 8.0)
_LOSS_SHARE = (0.1, 0.85)
"""Of the stormy time: in which the database loses commits. Leases are still asked for then, and other faults follow."""
_BEFORE_A_LOSS = 0.05
"""Of the stormy time: from the copy of the database to the loss of what was committed since."""
_PRICES_EVERY_SECONDS = 5.0
_SHORTAGE_SHARE = 0.5
"""Of the stormy time: in which shortages begin. A group that finds no room fails only after a minute."""
_SHORTAGE_SECONDS = (20.0, 80.0)
_USUAL_SECONDS = 270.0
"""The stormy time of a run of 300 s. Shortages are shorter in a shorter run."""


FIRST_MIDNIGHT_SHARE = 0.02
_DAY_SHARE = 0.06
_SECOND_MIDNIGHT_SHARE = 0.4
"""Of the stormy time. Nearly a day passes between the two, before any commit is lost: a lost VM would reach its deadline."""


class Happening(StrEnum):
    """What a storm is made of.

    `KILL`: SIGKILL to a process. `OUTAGE`: a cloud hangs or answers 5xx. `LIMIT`: a quota becomes tight for a while. `PRICE`: the
    spot prices of a cloud move. `COPY`: somebody starts a VM with the tags of another. `STANDBY` and `FAILOVER`: a standby of
    PostgreSQL begins to follow, and is promoted after it was cut off for a while. `BACKUP` and `RESTORE`: the
    database is dumped, and restored from the dump. `SCALE`, `GROUP_END`, `VM_STOP`: a group gets another size or is
    released, and somebody stops the VM of a member. `SHORTAGE`: a cloud has room for few VMs for a while.
    `DAY`: nearly a day passes at once, so that the next midnight, the end of a month, comes in the storm.
    """

    KILL = "kill"
    FLUSH = "flush"
    RESTART = "postgres_restart"
    REDIS = "redis_outage"
    OUTAGE = "cloud_outage"
    RECLAIM = "reclaim"
    CANCEL = "cancel"
    LIMIT = "limit"
    PRICE = "price_move"
    COPY = "copied_tags"
    STANDBY = "standby"
    FAILOVER = "failover"
    BACKUP = "backup"
    RESTORE = "restore"
    SCALE = "group_scaled"
    GROUP_END = "group_released"
    VM_STOP = "vm_stopped"
    SHORTAGE = "shortage"
    DAY = "next_day"


FAULTS = frozenset(
    {
        Happening.KILL,
        Happening.FLUSH,
        Happening.RESTART,
        Happening.REDIS,
        Happening.OUTAGE,
        Happening.FAILOVER,
        Happening.RESTORE,
        Happening.SHORTAGE,
    }
)
_PROGRAMS = ("worker",) * 6 + ("inventory",) * 2 + ("api", "redis")


@dataclass(frozen=True, order=True)
class Event:
    """`at` and `seconds` count from the start. `what`: the program, the cloud, or a number to choose by."""

    at: float
    happening: Happening
    what: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How much of everything."""

    leases: int
    seconds: float
    seed: int
    kills: int
    flushes: int
    restarts: int
    failovers: int
    restores: int


def events(wanted: Wanted) -> list[Event]:
    """In order of time."""
    chance = random.Random(wanted.seed)
    numbers = {
        Happening.KILL: wanted.kills,
        Happening.FLUSH: wanted.flushes,
        Happening.RESTART: wanted.restarts,
        Happening.REDIS: max(1, wanted.restarts // 2),
        Happening.OUTAGE: max(1, wanted.restarts),
        Happening.RECLAIM: wanted.leases // 20,
        Happening.CANCEL: wanted.leases // 5,
        Happening.LIMIT: max(1, wanted.restarts),
        Happening.PRICE: int(wanted.seconds / _PRICES_EVERY_SECONDS),
        Happening.COPY: max(2, wanted.leases // 100),
        Happening.SCALE: max(2, wanted.leases // 25),
        Happening.GROUP_END: max(1, wanted.leases // 100),
        Happening.VM_STOP: max(2, wanted.leases // 30),
        Happening.SHORTAGE: max(1, wanted.leases // 250),
    }
    until = wanted.seconds * _STORMY_SHARE
    day = Event(_DAY_SHARE * until, Happening.DAY, seconds=(_SECOND_MIDNIGHT_SHARE - _DAY_SHARE) * until)
    return sorted([*_drawn(chance, numbers, until), *_losses(chance, wanted, until), day])


def _drawn(chance: random.Random, numbers: dict[Happening, int], until: float) -> Iterator[Event]:
    for happening, number in numbers.items():
        for _ in range(number):
            at, seconds = chance.uniform(0, until), chance.uniform(*_OUTAGE_SECONDS)
            match happening:
                case Happening.KILL:
                    yield Event(at, happening, chance.choice(_PROGRAMS))
                case Happening.SHORTAGE:
                    lasts = chance.uniform(*_SHORTAGE_SECONDS) * min(1.0, until / _USUAL_SECONDS)
                    yield Event(at * _SHORTAGE_SHARE, happening, str(chance.randrange(2**31)), lasts)
                case Happening.OUTAGE:
                    yield Event(at, happening, f"{chance.choice(CLOUDS)} {chance.choice(('hang', 'error'))}", seconds)
                case _:
                    yield Event(at, happening, str(chance.randrange(2**31)), seconds)


def _losses(chance: random.Random, wanted: Wanted, until: float) -> Iterator[Event]:
    """One after the other, in a random order: each has a part of the time to itself, which it begins with the copy."""
    pairs = [(Happening.STANDBY, Happening.FAILOVER)] * wanted.failovers
    pairs += [(Happening.BACKUP, Happening.RESTORE)] * wanted.restores
    chance.shuffle(pairs)
    first, last = (share * until for share in _LOSS_SHARE)
    for number, (copied, lost) in enumerate(pairs):
        part = (last - first) / len(pairs)
        at = first + part * (number + chance.uniform(0.1, 0.5))
        yield Event(at, copied)
        yield Event(at + _BEFORE_A_LOSS * until, lost, seconds=chance.uniform(1.0, 4.0))
