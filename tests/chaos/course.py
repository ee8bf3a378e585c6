"""What a storm did, for its judge."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Course:
    """What a storm did.

    `made`: leases that were answered for, members of groups among them. `extra`: beside the planned ones. `groups`: those
    that were answered for. `capped`: leases with a spend cap, and `groups_capped`: groups whose members have one.
    `last_fault`: when it ended, in seconds from the start.
    """

    made: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    groups: list[str] = field(default_factory=list)
    groups_released: set[str] = field(default_factory=set)
    groups_capped: set[str] = field(default_factory=set)
    bursts: int = 0
    copies: set[str] = field(default_factory=set)
    happened: Counter[str] = field(default_factory=Counter)
    without_hold: list[str] = field(default_factory=list)
    last_fault: float = 0.0
