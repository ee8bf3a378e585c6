"""What is wrong with the GPUs of simulated machines, and how often: drawn from the seed."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from random import Random
from typing import Any


class Fault(StrEnum):
    """What is wrong with the GPUs of a machine. A reboot cures some resets, and nothing else."""

    NONE = "none"
    MISSING = "a missing GPU"
    XID = "Xid 79"
    REMAP = "a failed remapping"
    MODEL = "a wrong model"
    RESET = "a GPU that asks for a reset"
    WORN = "Xid 63"


FAILING = frozenset({Fault.MISSING, Fault.XID, Fault.REMAP, Fault.MODEL, Fault.RESET})
"""A proof with one of these is a failed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWeather:
    """Probabilities per machine, drawn from the seed."""

    fault: float = 0.0
    fails_later: float = 0.0
    never_reports: float = 0.0
    no_network: float = 0.0
    dies: float = 0.0
    idle: float = 0.0
    gap: float = 0.0

    @classmethod
    def drawn(cls, random: Random) -> "GpuWeather":
        return cls(
            fault=random.choice([0.0, 0.3, 0.6]),
            fails_later=random.choice([0.0, 0.2]),
            never_reports=random.choice([0.0, 0.2]),
            no_network=random.choice([0.0, 0.3]),
            dies=random.choice([0.0, 0.6]),
            idle=random.choice([0.5, 0.95]),
            gap=random.choice([0.0, 0.05]),
        )


TROUBLES = frozenset(trouble.name for trouble in fields(GpuWeather))


@dataclass(eq=False, slots=True)
class GpuTruth:
    """One machine's GPUs and its agent. Times are seconds since the start.

    `judged`: for each proof that the program has accepted or could read on the console, when, and whether it should fail.
    `accepted`: samples that the program has stored: when they were taken, and whether all GPUs were idle.
    """

    fault: Fault
    never_reports: bool
    no_network: bool
    dies_at: float
    fails_at: float
    idles: bool
    reset_helps: bool
    boot: int = 1
    console: list[str] = field(default_factory=list)
    delivered: list[tuple[float, bool]] = field(default_factory=list)
    printed: list[tuple[float, bool]] = field(default_factory=list)
    accepted: list[tuple[float, bool]] = field(default_factory=list)
    unsent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        return self.fault in FAILING
