"""How far usage records are closed, and which attempts changed since they were."""

from datetime import datetime
from typing import Any

from sqlalchemy import CompoundSelect, Update, and_, func, literal, or_, select, update

from app.db.core.sql import AnySelect, Time
from app.db.schema.tables import attempt, attempt_price, event, usage_progress, volume

LOCK = select(
    usage_progress.c.recorded_until, usage_progress.c.recorded_corrections_until, func.now().label("now")
).with_for_update()
"""How far the records are, locked: one process stores records at a time."""

FIRST_BILLING = select(
    func.least(
        select(func.min(attempt.c.billing_started_at)).scalar_subquery(),
        select(func.min(volume.c.billing_started_at)).scalar_subquery(),
    )
)
"""When the first attempt or volume that is known was billed; null without any."""


def next_billing(since: datetime) -> AnySelect:
    """The first time at or after `since` at which an attempt or a volume is billed; null without any."""
    moment = literal(since, Time)
    first = (
        select(func.min(func.greatest(table.c.billing_started_at, moment)))
        .where(
            table.c.billing_started_at.is_not(None),
            or_(table.c.billing_ended_at.is_(None), table.c.billing_ended_at > moment),
        )
        .scalar_subquery()
        for table in (attempt, volume)
    )
    return select(func.least(*first))


def changed_attempts(since: datetime) -> CompoundSelect[Any]:
    """(id) of attempts whose billing or price changed in a transaction that began at `since` or later.

    Billing ends in the past when the end of a VM is observed late. It begins in the past when a VM is adopted. Prices
    may be published late.
    """
    moment = literal(since, Time)
    started = and_(attempt.c.billing_ended_at.is_(None), attempt.c.billing_started_at >= moment)
    ended = or_(attempt.c.billing_ended_at >= moment, attempt.c.ended_at >= moment)
    billed = select(attempt.c.id).where(attempt.c.billing_started_at.is_not(None), or_(started, ended))
    adopted = (
        select(attempt.c.id)
        .select_from(event.join(attempt, attempt.c.lease_id == event.c.lease_id))
        .where(event.c.type == "lease.adopted", event.c.at >= moment)
    )
    priced = select(attempt_price.c.attempt_id).where(attempt_price.c.starts_at >= moment)
    return billed.union(adopted, priced)


def first_billing(attempts: list[str]) -> AnySelect:
    """The earliest time at which one of these attempts was billed."""
    return select(func.min(attempt.c.billing_started_at)).where(attempt.c.id.in_(attempts))


def move(recorded_until: datetime) -> Update:
    """Records that every hour before `recorded_until` is closed. It never moves back."""
    return update(usage_progress).values(
        recorded_until=func.greatest(usage_progress.c.recorded_until, literal(recorded_until, Time))
    )


def corrections_done(until: datetime) -> Update:
    """Records that what changed before `until` is corrected."""
    return update(usage_progress).values(recorded_corrections_until=until)
