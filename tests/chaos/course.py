"""What a storm did, for its judge."""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass
class Course:
    """What a storm did.

    `made`: leases that were answered for, members of groups among them. `extra`: beside the planned ones. `groups`: those
    that were answered for. `capped`: leases with a spend cap, and `groups_capped`: groups whose members have one.
    `volumes`: the names of those that were answered for, by id. `volumes_deleted`: those of which somebody requested the end.
    `stopped`: VMs that somebody ended at the cloud, or that their provider took back. `last_fault`: when it ended, in seconds from the start. `acts`: what
    was done to what, with the time.
    """

    made: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    groups: list[str] = field(default_factory=list)
    groups_released: set[str] = field(default_factory=set)
    groups_shrunk: set[str] = field(default_factory=set)
    groups_capped: set[str] = field(default_factory=set)
    volumes: dict[str, str] = field(default_factory=dict)
    volumes_deleted: set[str] = field(default_factory=set)
    bursts: int = 0
    stopped: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)
    happened: Counter[str] = field(default_factory=Counter)
    without_hold: list[str] = field(default_factory=list)
    last_fault: float = 0.0
    acts: list[str] = field(default_factory=list)

    def note(self, act: str, about: str = "") -> None:
        """Notes that something was just done."""
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        self.acts.append(f"{now} {act} {about}".rstrip())
