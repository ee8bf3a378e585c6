"""Idle GPU-hours of attempts in each hour, from the samples of their VMs."""

from typing import Any

from sqlalchemy import CTE, ColumnElement, Double, Numeric, SmallInteger, bindparam, case, cast, func, or_, select, true
from sqlalchemy import literal_column as constant

from app.db.core.sql import Time
from app.db.schema.tables import attempt, gpu_sample
from app.db.usage.facts import SINCE, UNTIL
from app.domain.idleness import IDLE_PERCENT

SAMPLE_SECONDS = "sample_seconds"
_SINCE, _UNTIL = (bindparam(name, type_=Time) for name in (SINCE, UNTIL))
_IDLE_PERCENT: ColumnElement[int] = constant(str(IDLE_PERCENT))
_SECONDS_PER_HOUR: ColumnElement[int] = constant("3600")


def idle_hours(condition: ColumnElement[bool]) -> CTE:
    """(attempt_id, starts_at, gpu_hours) of each hour of which there are samples.

    A sample counts each GPU that it shows idle for the time between two samples. Hours without a sample are unknown.
    The samples are read attempt by attempt, by their key: a day's partition holds those of all leases.
    """
    starts_at = func.date_trunc("hour", gpu_sample.c.at, "UTC").label("starts_at")
    each = cast(bindparam(SAMPLE_SECONDS, type_=Double), Numeric)
    ended = attempt.c.billing_ended_at
    hours = (
        select(starts_at, (func.sum(_idle_gpus()) * each / _SECONDS_PER_HOUR).label("gpu_hours"))
        .where(
            gpu_sample.c.lease_id == attempt.c.lease_id,
            gpu_sample.c.at >= func.greatest(attempt.c.billing_started_at, _SINCE),
            gpu_sample.c.at >= _SINCE,
            gpu_sample.c.at < _UNTIL,
            or_(ended.is_(None), gpu_sample.c.at < ended),
        )
        .group_by(starts_at)
        .correlate(attempt)
        .lateral("hours")
    )
    query = select(
        attempt.c.id.label("attempt_id"), cast(hours.c.starts_at, Time).label("starts_at"), hours.c.gpu_hours
    )
    return query.select_from(attempt.join(hours, true())).where(condition).cte("idle_hours")


def _idle_gpus() -> ColumnElement[Any]:
    """The GPUs that a sample shows idle."""
    percentages: Any = func.unnest(gpu_sample.c.gpu_values[1:1], type_=SmallInteger).column_valued("percent")
    count = select(func.count()).where(percentages <= _IDLE_PERCENT).correlate(gpu_sample).scalar_subquery()
    return case((gpu_sample.c.idle, func.cardinality(gpu_sample.c.uuids)), else_=count)
