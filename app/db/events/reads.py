"""Reading events: only numbered ones, in the order of their numbers."""

from typing import Any

from sqlalchemy import Select, func, select

from app.db.core.tenant_scope import owned
from app.db.schema.tables import event, installation

_SHOWN = (
    "id",
    "sequence",
    "tenant_id",
    "lease_id",
    "lease_sequence",
    "type",
    "data",
    "request_id",
    "at",
)


def numbered(*, after: int, limit: int, tenant_id: str | None = None, lease_id: str | None = None) -> Select[Any]:
    """Events above `after`, of one tenant or one lease when named."""
    statement = select(*(event.c[name] for name in _SHOWN)).where(event.c.sequence > after)
    if tenant_id is not None:
        statement = statement.where(event.c.tenant_id == tenant_id)
    if lease_id is not None:
        statement = statement.where(event.c.lease_id == lease_id)
    return statement.order_by(event.c.sequence).limit(limit)


def oldest_kept() -> Select[Any]:
    """One row `sequence`: the lowest number not purged, or one above the newest when none is kept.

    Numbers have no gaps over all tenants, so it must be asked in a transaction that sees every tenant.
    """
    first = select(event.c.sequence).where(event.c.sequence.is_not(None)).order_by(event.c.sequence).limit(1)
    return select(func.coalesce(first.scalar_subquery(), installation.c.event_sequence + 1).label("sequence"))


def last_number() -> Select[Any]:
    """One row `sequence`: the highest number given out."""
    return select(installation.c.event_sequence.label("sequence"))


def first_of_lease(lease_id: str, *, within: str | None) -> Select[Any]:
    """The lowest `lease_sequence` kept: 1 while nothing of the lease is purged, None when everything is."""
    return select(func.min(event.c.lease_sequence)).where(
        event.c.lease_id == lease_id, owned(event.c.tenant_id, within)
    )
