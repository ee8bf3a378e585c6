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


class Happening(StrEnum):
    """`KILL`: SIGKILL to a process. `OUTAGE`: a cloud hangs or answers 5xx. `LIMIT`: a quota becomes tight for a while."""

    KILL = "kill"
    FLUSH = "flush"
    RESTART = "postgres_restart"
    REDIS = "redis_outage"
    OUTAGE = "cloud_outage"
    RECLAIM = "reclaim"
    CANCEL = "cancel"
    LIMIT = "limit"


FAULTS = frozenset({Happening.KILL, Happening.FLUSH, Happening.RESTART, Happening.REDIS, Happening.OUTAGE})
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
    }
    return sorted(_drawn(chance, numbers, wanted.seconds * _STORMY_SHARE))


def _drawn(chance: random.Random, numbers: dict[Happening, int], until: float) -> Iterator[Event]:
    for happening, number in numbers.items():
        for _ in range(number):
            at, seconds = chance.uniform(0, until), chance.uniform(*_OUTAGE_SECONDS)
            match happening:
                case Happening.KILL:
                    yield Event(at, happening, chance.choice(_PROGRAMS))
                case Happening.OUTAGE:
                    yield Event(at, happening, f"{chance.choice(CLOUDS)} {chance.choice(('hang', 'error'))}", seconds)
                case _:
                    yield Event(at, happening, str(chance.randrange(2**31)), seconds)
