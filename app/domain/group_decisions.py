"""The decisions about a group: from the facts about it and its members to the one next step. Total and pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.groups import Group, Pool
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A lease of a group: the newest of its rank, or an older one that has not ended.

    `wanted`: nobody has requested its end. `live_in`: the pool-wide place of its live attempt; None: it has no live
    attempt. `was_ready`: it was active once.
    """

    lease_id: LeaseId
    rank: int
    state: LeaseState
    wanted: bool
    pool: Pool | None
    live_in: Pool | None
    retreats: bool
    was_ready: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before `until`, or before a member wakes the group. None: the group has ended."""

    until: datetime | None


GroupStep = Rest


def decide_group(group: Group, members: Sequence[Member], now: datetime) -> GroupStep:
    """The next step of a group."""
    raise NotImplementedError
