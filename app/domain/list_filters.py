"""What lists are narrowed and ordered by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from app.domain.event_types import EventType
from app.domain.groups.groups import GroupState
from app.domain.leases import LeaseState


class LeaseSort(StrEnum):
    """Order of a list: a field of the lease, with a minus for the greatest first. Ties are broken by id."""

    CREATED_AT = "created_at"
    CREATED_AT_DESC = "-created_at"
    UPDATED_AT = "updated_at"
    UPDATED_AT_DESC = "-updated_at"
    EXPIRES_AT = "expires_at"
    EXPIRES_AT_DESC = "-expires_at"
    NAME = "name"
    NAME_DESC = "-name"

    @property
    def column(self) -> str:
        """The field."""
        return self.value.removeprefix("-")

    @property
    def descending(self) -> bool:
        """Whether the greatest comes first."""
        return self.value.startswith("-")

    @property
    def by_time(self) -> bool:
        """Whether the field is a time."""
        return self.column.endswith("_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFilter:
    """All that is given must hold. None or empty means any; `tenant_id` None means every tenant one may see."""

    tenant_id: str | None = None
    states: frozenset[LeaseState] = frozenset()
    ids: tuple[str, ...] = ()
    name: str | None = None
    search: str | None = None
    """A part of the name in upper or lower case, or the whole id."""
    provider: str | None = None
    region: str | None = None
    gpu_model: str | None = None
    group_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """All that is given must hold. None or empty means any."""

    tenant_id: str | None = None
    states: frozenset[GroupState] = frozenset()
    name: str | None = None


class EventSort(StrEnum):
    """The order of a list of events. Both follow the numbers, which are given in the order of the commits."""

    CREATED_AT = "created_at"
    CREATED_AT_DESC = "-created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRange:
    """Numbers above `after` and below `before`, and their order."""

    after: int | None = None
    before: int | None = None
    sort: EventSort = EventSort.CREATED_AT

    @property
    def newest_first(self) -> bool:
        """Whether the numbers descend."""
        return self.sort is EventSort.CREATED_AT_DESC


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """All that is given must hold. None or empty means any."""

    tenant_id: str | None = None
    lease_id: str | None = None
    group_id: str | None = None
    types: frozenset[EventType] = frozenset()
    created_after: datetime | None = None
    created_before: datetime | None = None

    def matches(self, row: Any) -> bool:
        """Whether a row of an event matches: the rule of the list's SQL, for an event stream."""
        return (
            self.tenant_id in {None, row.tenant_id}
            and self.lease_id in {None, row.lease_id}
            and self.group_id in {None, row.data.get("group_id")}
            and (not self.types or row.type in self.types)
            and (self.created_after is None or row.created_at > self.created_after)
            and (self.created_before is None or row.created_at < self.created_before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationFilter:
    """`month`: its first day, None: the current one in UTC. `tenant_id`, `kind`: None means any."""

    month: date | None = None
    tenant_id: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """All that is given must hold. None or empty means any. `about`: the target of the change."""

    types: frozenset[str] = frozenset()
    about: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
