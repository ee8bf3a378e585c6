"""What attempts use in each clock hour (UTC), and the statement that stores it.

One statement closes an hour and corrects hours that are closed: it stores the difference between what the attempts used
and what is stored. Storing twice therefore changes nothing. Parameters: SINCE and UNTIL (full hours) and AS_OF: what is
still billed counts until then.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Numeric,
    Text,
    and_,
    any_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Time
from app.db.leases.billing import cost, price_segments, seconds
from app.db.schema.tables import attempt, lease, usage_record
from app.db.usage.facts import AS_OF, SINCE, UNTIL
from app.db.usage.idle_hours import SAMPLE_SECONDS, idle_hours

MEASURES = (
    "seconds",
    "compute_cost",
    "disk_cost",
    "address_cost",
    "list_cost",
    "disk_gib_hours",
    "gpu_hours",
)
"""Columns that are sums. A correction adds to them."""
SNAPSHOT = ("lease_name", "key_id", "labels", "instance_id")
"""Columns that may change later: a record keeps them as they were when the hour was closed."""
_PLACE = ("n", "provider", "account", "region", "zone", "instance_type", "market")
_PRICE = ("price_per_hour", "price_source", "price_as_of")
_PRICED = (
    *("id", "lease_id", "billing_started_at", "price_per_hour", "price_source", "price_as_of"),
    *("disk_price_per_hour", "address_price_per_hour"),
)
"""What a selectable of attempts needs besides `billing_ended_at`, for `price_segments`."""
_COLUMNS = ("tenant_id", "lease_id", *_PLACE, "gpu_model", "gpu_count", *_PRICE, *MEASURES, *SNAPSHOT)
_IDLE = ("idle_gpu_hours", "idle_cost")
"""Columns that are written as an hour is closed: its samples are deleted after some days, so corrections leave them."""

_SINCE, _UNTIL, _AS_OF = (bindparam(name, type_=Time) for name in (SINCE, UNTIL, AS_OF))
_HOUR: ColumnElement[Any] = literal_column("interval '1 hour'")
_SECONDS_PER_HOUR: ColumnElement[int] = literal_column("3600")
_ZERO: ColumnElement[int] = literal_column("0")
_SAME: ColumnElement[Any] = literal_column("0.000000000001")
"""Amounts that differ by less are equal: divisions round at the sixteenth digit."""


def overlapping() -> ColumnElement[bool]:
    """Attempts that may be billed between SINCE and UNTIL."""
    ended = attempt.c.billing_ended_at
    return and_(attempt.c.billing_started_at < _UNTIL, or_(ended.is_(None), ended > _SINCE))


def chosen() -> ColumnElement[bool]:
    """The attempts in the parameter `attempts`."""
    return attempt.c.id == any_(bindparam("attempts", type_=ARRAY(Text)))


def usage(condition: ColumnElement[bool], owned: Any = None) -> AnySelect:
    """What the attempts of `condition` used in each hour: the columns of usage_record but revision and created_at.

    `owned`: from a column `tenant_id`, the condition on it; None: every tenant. Idle hours are not among the columns.
    """
    allowed = owned or (lambda _column: true())
    billed = _billed(and_(condition, allowed(attempt.c.tenant_id)))
    hours = _hours(billed)
    hour_of = {name: hours.c[name] for name in (*_PRICE, "seconds", "compute_cost")}
    gpus = cast(attempt.c.offering["gpu"]["count"].astext, Integer)
    values: dict[str, Any] = {
        "tenant_id": attempt.c.tenant_id,
        "lease_id": attempt.c.lease_id,
        **{name: attempt.c[name] for name in _PLACE},
        "gpu_model": attempt.c.offering["gpu"]["model"].astext,
        "gpu_count": gpus,
        **hour_of,
        "disk_cost": _for_hour(attempt.c.disk_price_per_hour, hours),
        "address_cost": _for_hour(attempt.c.address_price_per_hour, hours),
        "list_cost": case(
            (attempt.c.list_price_per_hour.is_(None), hours.c.compute_cost),
            else_=_for_hour(attempt.c.list_price_per_hour, hours),
        ),
        "disk_gib_hours": _for_hour(attempt.c.disk_gib, hours),
        "gpu_hours": _for_hour(gpus, hours),
        "lease_name": lease.c.name,
        "key_id": lease.c.key_id,
        "labels": lease.c.labels,
        "instance_id": attempt.c.instance_id,
    }
    source = hours.join(attempt, attempt.c.id == hours.c.attempt_id).join(lease, lease.c.id == attempt.c.lease_id)
    columns = (values[name].label(name) for name in _COLUMNS)
    return select(hours.c.attempt_id, hours.c.starts_at, *columns).select_from(source)


def _billed(condition: ColumnElement[bool]) -> CTE:
    """Attempts, billed until AS_OF at most."""
    ended = func.least(func.coalesce(attempt.c.billing_ended_at, _AS_OF), _AS_OF).label("billing_ended_at")
    begun = attempt.c.billing_started_at.is_not(None)
    return select(*(attempt.c[name] for name in _PRICED), ended).where(begun, condition).cte("billed")


def _hours(billed: CTE) -> CTE:
    """attempt_id, starts_at, seconds, compute_cost and the last price of each hour in which an attempt is billed."""
    segment = price_segments(billed, ("billing_started_at", "price_as_of"))
    is_change = segment.c.starts_at > segment.c.billing_started_at
    prices: dict[str, ColumnElement[Any]] = {
        "price_per_hour": segment.c.rate_per_hour,
        "price_source": segment.c.price_source,
        "price_as_of": case((is_change, segment.c.starts_at), else_=segment.c.price_as_of),
    }
    first = func.greatest(segment.c.starts_at, _SINCE)
    last = func.least(segment.c.ends_at, _UNTIL)
    hour = (
        func.generate_series(func.date_trunc("hour", first, "UTC"), last, _HOUR)
        .table_valued("starts_at", name="hour")
        .render_derived()
        .lateral()
    )
    starts_at = cast(hour.c.starts_at, Time)
    part = (func.greatest(first, starts_at), func.least(last, starts_at + _HOUR))

    def newest(name: str) -> ColumnElement[Any]:
        ordered = aggregate_order_by(prices[name], segment.c.starts_at.desc())
        return func.array_agg(ordered, type_=ARRAY(prices[name].type))[1].label(name)

    return (
        select(
            segment.c.attempt_id,
            starts_at.label("starts_at"),
            func.sum(seconds(*part)).label("seconds"),
            func.sum(cost(segment.c.price_per_hour, *part)).label("compute_cost"),
            *(newest(name) for name in _PRICE),
        )
        .select_from(segment.join(hour, true()))
        .where(part[1] > part[0])
        .group_by(segment.c.attempt_id, starts_at)
        .cte("hours")
    )


def _for_hour(per_hour: ColumnElement[Any], hours: CTE) -> ColumnElement[Any]:
    return func.coalesce(per_hour, _ZERO) * hours.c.seconds / _SECONDS_PER_HOUR


def _record(condition: ColumnElement[bool], *, with_idle: bool = False) -> AnyInsert:
    """`with_idle`: of hours without a record, the idle hours are stored too."""
    used = usage(condition).cte("found")
    stored = _stored(select(attempt.c.id).where(condition))
    original = usage_record.alias("original")
    same = _same_hour(used, stored)
    is_original = and_(_same_hour(original, stored), original.c.revision == stored.c.first_revision)
    starts_at = func.coalesce(used.c.starts_at, stored.c.starts_at)
    late = case((starts_at < bindparam("closed_until", type_=Time), literal_column("1")), else_=_ZERO)
    added = _added(used, stored)
    values = {**_other_columns(used, original), **added}
    source: FromClause = used.join(stored, same, full=True).outerjoin(original, is_original)
    idle: dict[str, ColumnElement[Any]] = dict.fromkeys(_IDLE, cast(null(), Numeric))
    if with_idle:
        sampled = idle_hours(condition)
        source = source.outerjoin(sampled, _same_hour(sampled, used))
        idle = _idle(sampled, used, is_known=and_(stored.c.attempt_id.is_(None), sampled.c.gpu_hours.is_not(None)))
    rows = (
        select(
            func.coalesce(used.c.attempt_id, stored.c.attempt_id).label("attempt_id"),
            starts_at.label("starts_at"),
            func.coalesce(stored.c.last_revision + literal_column("1"), late).label("revision"),
            *(values[name].label(name) for name in _COLUMNS),
            *(idle[name].label(name) for name in _IDLE),
        )
        .select_from(source)
        .where(or_(*(func.abs(amount) > _SAME for amount in added.values())))
    )
    return (
        insert(usage_record)
        .from_select(["attempt_id", "starts_at", "revision", *_COLUMNS, *_IDLE], rows)
        .on_conflict_do_nothing()
        .returning(usage_record.c.tenant_id, usage_record.c.starts_at)
    )


def _same_hour(record: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(record.c.attempt_id == other.c.attempt_id, record.c.starts_at == other.c.starts_at)


def _idle(sampled: CTE, used: CTE, *, is_known: ColumnElement[bool]) -> dict[str, ColumnElement[Any]]:
    """Idle hours, at most those that are billed, and their part of the cost. NULL where they are unknown."""
    hours = func.least(sampled.c.gpu_hours, used.c.gpu_hours)
    total = used.c.compute_cost + used.c.disk_cost + used.c.address_cost
    cost_of_hours = total * hours / func.nullif(used.c.gpu_hours, _ZERO)
    return {"idle_gpu_hours": case((is_known, hours)), "idle_cost": case((is_known, cost_of_hours))}


def _added(used: CTE, stored: CTE) -> dict[str, ColumnElement[Any]]:
    """What is used and not stored, or the reverse."""
    return {name: func.coalesce(used.c[name], _ZERO) - func.coalesce(stored.c[name], _ZERO) for name in MEASURES}


def _other_columns(used: CTE, original: Any) -> dict[str, ColumnElement[Any]]:
    """The other columns: of the record that is corrected, except the price."""
    columns: dict[str, ColumnElement[Any]] = {}
    for name in (name for name in _COLUMNS if name not in MEASURES):
        order = (used, original) if name in _PRICE else (original, used)
        columns[name] = func.coalesce(*(table.c[name] for table in order))
    return columns


def _stored(ids: AnySelect) -> CTE:
    """The sums of what is stored of these attempts, and the first and last revision of each hour."""
    hours = (usage_record.c.starts_at >= _SINCE, usage_record.c.starts_at < _UNTIL)
    return (
        select(
            usage_record.c.attempt_id,
            usage_record.c.starts_at,
            *(func.sum(usage_record.c[name]).label(name) for name in MEASURES),
            func.min(usage_record.c.revision).label("first_revision"),
            func.max(usage_record.c.revision).label("last_revision"),
        )
        .where(usage_record.c.attempt_id.in_(ids), *hours)
        .group_by(usage_record.c.attempt_id, usage_record.c.starts_at)
        .cte("stored")
    )


_CLOSE = _record(overlapping(), with_idle=True)
_CORRECT = _record(chosen())


def close(since: datetime, until: datetime, sample_seconds: float = 60) -> Bound[AnyInsert]:
    """Stores the records of full hours that are over. Returns (tenant_id, starts_at) of each.

    `sample_seconds`: between two samples of GPUs. Idle hours are those of the samples that have arrived by now.
    """
    values: Mapping[str, Any] = {SINCE: since, UNTIL: until, AS_OF: until}
    return Bound(_CLOSE, {**values, "closed_until": since, SAMPLE_SECONDS: sample_seconds})


def correct(attempts: list[str], since: datetime, closed_until: datetime) -> Bound[AnyInsert]:
    """Stores what differs from the records of these attempts in hours that are closed. Returns as `close`."""
    values: Mapping[str, Any] = {SINCE: since, UNTIL: closed_until, AS_OF: closed_until}
    return Bound(_CORRECT, {**values, "closed_until": closed_until, "attempts": attempts})
