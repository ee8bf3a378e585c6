"""The members of a group, as decisions see them, and the steps that are decided on."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.groups.groups import Pool
from app.domain.ids import LeaseId
from app.domain.leases import TERMINAL, LeaseState
from app.domain.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A lease of a group: the newest of its rank, or an older one that has not ended.

    `should_run`: nobody has requested its end. `pool` of an ended member: not None until the group has handled its end.
    `live`: it has an attempt that may have a VM. `was_ready`: it was active once. `stuck`: nothing in its pool could be
    planned. `term_in_doubt`: a later `expires_at` may have been lost with a restored database.
    """

    lease_id: LeaseId
    rank: int
    state: LeaseState
    should_run: bool
    pool: Pool | None
    live: bool
    retreats: bool
    was_ready: bool
    stuck: bool
    reason: Reason | None
    expires_at: datetime
    term_in_doubt: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class GroupRest:
    """Nothing to do before `until`, or before a member wakes the group. None: the group has ended."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Elect:
    """Choose a pool and start to form the group there. Without one: wait for a pool, or end the group."""


@dataclass(frozen=True, slots=True)
class AssignPool:
    """Let these members launch in the group's pool."""

    lease_ids: tuple[LeaseId, ...]


@dataclass(frozen=True, slots=True)
class Activate:
    """All members are ready."""


@dataclass(frozen=True, slots=True)
class DropMissing:
    """The time to form is over, and enough members are ready: release the others and go on."""

    lease_ids: tuple[LeaseId, ...]
    ready: int


@dataclass(frozen=True, slots=True)
class Retreat:
    """Too few members are ready: end every VM of the pool, and let the group try another one."""

    ready: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Degrade:
    """Go on with fewer members. `lost`: members whose loss is recorded; those that return to the queue get the pool."""

    lost: tuple[Member, ...]
    ready: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Shrink:
    """Release these members: their ranks exceed the size."""

    lease_ids: tuple[LeaseId, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Create a lease for each of these ranks. Its former leases have ended. `needed`: without them the group ends."""

    ranks: tuple[int, ...]
    needed: bool


@dataclass(frozen=True, slots=True)
class ReleaseAll:
    """End the group and every member for `reason`. `lost`: the member whose loss ends the group."""

    reason: Reason
    lost: Member | None = None


@dataclass(frozen=True, slots=True)
class EndGroup:
    """Every member has ended: the group has ended."""


GroupStep = (
    GroupRest
    | Elect
    | AssignPool
    | Activate
    | DropMissing
    | Retreat
    | Degrade
    | Shrink
    | Replace
    | ReleaseAll
    | EndGroup
)
