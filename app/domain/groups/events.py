"""The events of groups and the data that each carries."""

from dataclasses import dataclass
from typing import Any, Self

from app.domain.event_parts import EventData, EventReason, described
from app.domain.event_types import EventType
from app.domain.groups.groups import Pool


def _group() -> Any:
    return described("The group's id.")


def _size() -> Any:
    return described("The number of members that the group shall have.")


def _ready() -> Any:
    return described("The number of members that are ready.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPool:
    """Where all members of a group are placed."""

    account: str = described("The name of the cloud account.")
    region: str = described("The region.")
    zone: str | None = described("The zone. Null: any zone of the region.")
    instance_type: str = described("The instance type.")
    market: str = described("`on_demand`, `spot` or `reserved`.")

    @classmethod
    def of(cls, pool: Pool) -> Self:
        """A pool as events carry it."""
        return cls(**pool.as_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQueued(EventData):
    """The group was created."""

    type = EventType.GROUP_QUEUED
    group_id: str = _group()
    name: str = described("The group's name.")
    size: int = _size()
    min_size: int = described("The number of members without which the group does not run.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForming(EventData):
    """A pool was chosen, and all members launch there."""

    type = EventType.GROUP_FORMING
    group_id: str = _group()
    pool: EventPool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPoolFailed(EventData):
    """Too few members were ready in time. Every VM of the pool ends before another pool is tried."""

    type = EventType.GROUP_POOL_FAILED
    group_id: str = _group()
    pool: EventPool
    ready: int = _ready()
    reason: EventReason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupActive(EventData):
    """All members are ready."""

    type = EventType.GROUP_ACTIVE
    group_id: str = _group()
    size: int = _size()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDegraded(EventData):
    """The group goes on with fewer members than its size."""

    type = EventType.GROUP_DEGRADED
    group_id: str = _group()
    size: int = _size()
    ready: int = _ready()
    reason: EventReason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberLost(EventData):
    """A member of a formed group ended or lost its VM."""

    type = EventType.GROUP_MEMBER_LOST
    group_id: str = _group()
    lease_id: str = described("The member's lease.")
    rank: int = described("The member's rank.")
    reason: EventReason | None = described("Why. Null: unknown.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResized(EventData):
    """The size was changed."""

    type = EventType.GROUP_RESIZED
    group_id: str = _group()
    size: int = _size()
    previous_size: int = described("The size before.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReleasing(EventData):
    """The group and every member start to end."""

    type = EventType.GROUP_RELEASING
    group_id: str = _group()
    reason: EventReason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnded(EventData):
    """Every member has ended."""

    type = EventType.GROUP_ENDED
    group_id: str = _group()
    reason: EventReason | None


GROUP_EVENT_DATA: tuple[type[EventData], ...] = (
    GroupQueued,
    GroupForming,
    GroupPoolFailed,
    GroupActive,
    GroupDegraded,
    GroupMemberLost,
    GroupResized,
    GroupReleasing,
    GroupEnded,
)
"""The data of each type."""
