"""Reading events: only numbered ones, in the order of their numbers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, exists, func, or_, select

from app.db.core.statements import AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import event, installation, lease_group
from app.domain.event_types import EventType

_SHOWN = (
    *(event.c[name] for name in ("id", "sequence", "tenant_id", "lease_id", "lease_sequence", "type", "data")),
    event.c.request_id,
    event.c.at.label("created_at"),
)


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
        """Whether a row of `numbered` matches, as `conditions` states it in SQL."""
        return (
            self.tenant_id in {None, row.tenant_id}
            and self.lease_id in {None, row.lease_id}
            and self.group_id in {None, row.data.get("group_id")}
            and (not self.types or row.type in self.types)
            and (self.created_after is None or row.created_at > self.created_after)
            and (self.created_before is None or row.created_at < self.created_before)
        )

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same in SQL."""
        found = [(event.c.tenant_id, self.tenant_id), (event.c.lease_id, self.lease_id)]
        conditions = [column == value for column, value in found if value is not None]
        if self.group_id is not None:
            of_group = select(lease_group.c.created_at).where(lease_group.c.id == self.group_id).scalar_subquery()
            conditions += [event.c.data["group_id"].astext == self.group_id, event.c.at >= of_group]
        if self.types:
            conditions.append(event.c.type.in_(sorted(str(one) for one in self.types)))
        if self.created_after is not None:
            conditions.append(event.c.at > self.created_after)
        if self.created_before is not None:
            conditions.append(event.c.at < self.created_before)
        return conditions


ANY = EventFilter()


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


def numbered(*, after: int, limit: int, wanted: EventFilter = ANY) -> AnySelect:
    """Events above `after` that match, in the order of their numbers."""
    return in_range(EventRange(after=after), limit=limit, wanted=wanted)


def in_range(span: EventRange, *, limit: int, wanted: EventFilter) -> AnySelect:
    """Events of the range that match, in its order."""
    statement = select(*_SHOWN).where(event.c.sequence > (span.after or 0), *wanted.conditions())
    if span.before is not None:
        statement = statement.where(event.c.sequence < span.before)
    return statement.order_by(event.c.sequence.desc() if span.newest_first else event.c.sequence).limit(limit)


def is_position(after: int) -> AnySelect:
    """One row (is_position, newest): whether every event above `after` is kept, and the highest number given out.

    A position is the newest number, the number of a kept event, or the one below a kept event. Any other is of deleted
    events, or of a history that a restore has undone. Numbers have no gaps over all tenants but after a restore, so it
    must be asked in a transaction that sees every tenant.
    """
    kept = exists().where(event.c.sequence.in_((after, after + 1)))
    return select(
        or_(kept, installation.c.event_sequence == after).label("is_position"),
        installation.c.event_sequence.label("newest"),
    )


def last_number() -> AnySelect:
    """One row `sequence`: the highest number given out."""
    return select(installation.c.event_sequence.label("sequence"))


def first_of_lease(lease_id: str, *, within: str | None) -> AnySelect:
    """The lowest `lease_sequence` kept: 1 while nothing of the lease is purged, None when everything is."""
    return select(func.min(event.c.lease_sequence)).where(
        event.c.lease_id == lease_id, owned(event.c.tenant_id, within)
    )
