"""Statements that keep the stored sums: they are made anew from the facts, so making them twice changes nothing."""

from datetime import datetime, timedelta

from sqlalchemy import (
    Delete,
    Integer,
    Text,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.schema.tables import attempt, attempt_archive, event, lease, usage_progress, usage_rollup, volume
from app.db.usage.facts import AS_OF, MEASURES, PERCENTILES, SECONDS, SINCE, UNTIL, facts, sums, text
from app.domain.usage import ALL, UsagePeriod

LOCK_PROGRESS = select(
    usage_progress.c.rolled_until, usage_progress.c.checked_until, func.now().label("now")
).with_for_update()
"""How far the sums are, locked: one process makes sums at a time."""

FIRST_USE = select(
    func.least(
        select(func.min(lease.c.created_at)).scalar_subquery(),
        select(func.min(attempt.c.billing_started_at)).scalar_subquery(),
        select(func.min(attempt_archive.c.billing_started_at)).scalar_subquery(),
        select(func.min(volume.c.billing_started_at)).scalar_subquery(),
    ).label("first_use")
)
"""When the first lease was created, or the first attempt or volume billed; null without any."""


def first_correction(since: datetime) -> AnySelect:
    """The earliest billed time that changes written at `since` or later concern; null without any.

    Billing ends in the past when the end of a VM is observed late. It begins in the past when a VM is adopted.
    """
    ended = select(attempt.c.billing_ended_at.label("moment")).where(attempt.c.ended_at >= literal(since, Time))
    adopted = (
        select(attempt.c.billing_started_at)
        .select_from(event.join(attempt, attempt.c.lease_id == event.c.lease_id))
        .where(event.c.type == "lease.adopted", event.c.at >= literal(since, Time))
    )
    moments = union_all(ended, adopted).subquery("moments")
    return select(func.min(moments.c.moment))


def _insert() -> Insert:
    hours = facts(archived=True)
    place = (hours.c.tenant_id, hours.c.provider, hours.c.gpu_model)
    tenant, provider, model = place
    sets = ((), (provider,), (model,), (tenant,), (tenant, provider), (tenant, model))

    def or_all(column: object) -> object:
        return case((func.grouping(column) == literal(1, Integer), text(ALL)), else_=column)

    names = ["step", "starts_at", "tenant_id", "provider", "gpu_model", *MEASURES, *PERCENTILES]
    rows = select(
        bindparam("step", type_=Text),
        hours.c.starts_at,
        *(or_all(column) for column in place),
        *sums(hours),
    ).group_by(func.grouping_sets(*(tuple_(hours.c.starts_at, *columns) for columns in sets)))
    return insert(usage_rollup).from_select(names, rows)


_INSERT = _insert()


def insert_sums(period: UsagePeriod) -> Bound[Insert]:
    """Adds the sums of every step of a period. Its steps are over, and `delete_sums` has made room."""
    values = {SINCE: period.since, UNTIL: period.until, AS_OF: period.until, "step": str(period.step)}
    return Bound(_INSERT, {**values, SECONDS: period.step.length / timedelta(seconds=1)})


def delete_sums(period: UsagePeriod) -> Delete:
    """Deletes the sums of every step of a period."""
    moment = usage_rollup.c.starts_at
    return delete(usage_rollup).where(
        usage_rollup.c.step == str(period.step), moment >= period.since, moment < period.until
    )


def move_progress(rolled_until: datetime) -> Update:
    """Records that every hour before `rolled_until` is summed up. It never moves back."""
    return update(usage_progress).values(
        rolled_until=func.greatest(usage_progress.c.rolled_until, literal(rolled_until, Time))
    )


def corrections_done(checked_until: datetime) -> Update:
    """Records that corrections written before `checked_until` are summed up."""
    return update(usage_progress).values(checked_until=checked_until)
