"""What waits for a worker: leases, events and webhooks, with the age of the oldest of each."""

from typing import Any

from sqlalchemy import Float, and_, case, cast, func, or_, select, text

from app.db.schema.tables import event, webhook

_UNNUMBERED = select(event.c.at).where(event.c.sequence.is_(None)).order_by(event.c.row_id).limit(1).scalar_subquery()
_NEXT = (
    select(event.c.at)
    .where(event.c.tenant_id == webhook.c.tenant_id, event.c.sequence > webhook.c.position)
    .order_by(event.c.sequence)
    .limit(1)
    .correlate(webhook)
    .scalar_subquery()
)
_DUE = and_(~webhook.c.slow, or_(webhook.c.held_until.is_(None), webhook.c.held_until < func.now()))


OVERDUE = text(
    """
    SELECT count(*) AS leases, coalesce(max(extract(epoch FROM now() - next_due)), 0)::float8 AS age
    FROM lease WHERE next_due <= now() AND (held_until IS NULL OR held_until < now())
    """
)
"""Leases that are due and that no worker has claimed, and the seconds for which the first of them has been due."""


def _age(since: Any) -> Any:
    return cast(func.greatest(func.extract("epoch", func.now() - since), 0), Float)


EVENT_LAG = select(
    func.coalesce(_age(_UNNUMBERED), 0.0).label("unnumbered_seconds"),
    select(func.coalesce(func.max(_age(func.least(_NEXT, case((_DUE, webhook.c.next_due))))), 0.0))
    .where(webhook.c.enabled)
    .scalar_subquery()
    .label("webhooks_seconds"),
)
"""Seconds that the oldest event waits for its number, and the longest wait of a webhook for a worker.

A worker makes the deliveries of an event and sends those that are due. A slow receiver's deliveries may wait. 0: nothing
waits.
"""
