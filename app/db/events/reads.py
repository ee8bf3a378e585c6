"""Reading events: only numbered ones, in the order of their numbers."""

from sqlalchemy import ColumnElement, exists, func, or_, select

from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import event, installation, lease_group
from app.domain.list_filters import EventFilter, EventRange

_SHOWN = (
    *(event.c[name] for name in ("id", "sequence", "tenant_id", "lease_id", "lease_sequence", "type", "data")),
    event.c.request_id,
    event.c.at.label("created_at"),
)


def _conditions(criteria: EventFilter) -> list[ColumnElement[bool]]:
    """What the filter means in SQL."""
    filters = [(event.c.tenant_id, criteria.tenant_id), (event.c.lease_id, criteria.lease_id)]
    conditions = [column == value for column, value in filters if value is not None]
    if criteria.group_id is not None:
        of_group = select(lease_group.c.created_at).where(lease_group.c.id == criteria.group_id).scalar_subquery()
        conditions += [event.c.data["group_id"].astext == criteria.group_id, event.c.at >= of_group]
    if criteria.types:
        conditions.append(event.c.type.in_(sorted(str(event_type) for event_type in criteria.types)))
    if criteria.created_after is not None:
        conditions.append(event.c.at > criteria.created_after)
    if criteria.created_before is not None:
        conditions.append(event.c.at < criteria.created_before)
    return conditions


ANY = EventFilter()


def numbered(*, after: int, limit: int, criteria: EventFilter = ANY) -> AnySelect:
    """Events above `after` that match, in the order of their numbers."""
    return in_range(EventRange(after=after), limit=limit, criteria=criteria)


def in_range(span: EventRange, *, limit: int, criteria: EventFilter) -> AnySelect:
    """Events of the range that match, in its order."""
    statement = select(*_SHOWN).where(event.c.sequence > (span.after or 0), *_conditions(criteria))
    if span.before is not None:
        statement = statement.where(event.c.sequence < span.before)
    return statement.order_by(event.c.sequence.desc() if span.newest_first else event.c.sequence).limit(limit)


def is_position(after: int) -> AnySelect:
    """One row (is_position, newest): whether every event above `after` is kept, and the highest number given out.

    A position is the newest number, the number of a kept event, or the one below a kept event. Any other is of deleted
    events, or of a history that a restore has undone. Numbers have no gaps over all tenants but after a restore, so it
    must be asked in a transaction that sees every tenant.
    """
    is_stored = exists().where(event.c.sequence.in_((after, after + 1)))
    return select(
        or_(is_stored, installation.c.event_sequence == after).label("is_position"),
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
