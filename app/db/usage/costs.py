"""How costs are read: sums of closed hours and days, and in the same statement what the open hours have used so far.

Stored rows count only before STORED_UNTIL, the border to the open hours. Parameters: PERIOD_SINCE, STORED_UNTIL, the
tenant (`tenant_scope.parameter`), `label_0`, `label_1`; for open hours those of `records.usage`; for a page `after_0` (a time), `after_1`, `after_2` and `limit`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Numeric,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    true,
    tuple_,
    union_all,
)

from app.db.core.sql import AnySelect, Id, Time
from app.db.core.tenant_scope import only
from app.db.schema.tables import cost_rollup, usage_progress, usage_record
from app.db.usage import volume_records
from app.db.usage.cost_rollup import AMOUNTS, DIMENSIONS, is_first_use, is_volume, leases_of, of_record
from app.db.usage.facts import text
from app.db.usage.records import overlapping, usage
from app.domain.costs import CostBucket, CostDimension, CostGrouping, group_name

PROGRESS = select(usage_progress.c.recorded_until, func.now().label("now"))

PERIOD_SINCE, STORED_UNTIL = "period_since", "stored_until"
_SINCE, _UNTIL = (bindparam(name, type_=Time) for name in (PERIOD_SINCE, STORED_UNTIL))
_COLUMNS = {CostDimension.TENANT: "tenant_id", CostDimension.LEASE: "lease_id"}
_ONE: ColumnElement[int] = literal_column("1")
_ZERO: ColumnElement[int] = literal_column("0")
_EMPTY: ColumnElement[str] = literal_column("''", Text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostShape:
    """What makes a statement another one. `live`: the period contains hours that are not closed."""

    bucket: CostBucket
    groupings: tuple[CostGrouping, ...]
    every_tenant: bool
    live: bool

    @property
    def needs_records(self) -> bool:
        """Whether the stored sums do not suffice."""
        return any(grouping.needs_records for grouping in self.groupings)


@lru_cache(maxsize=64)
def page(shape: CostShape, *, after: bool) -> AnySelect:
    """`start`, group_0 …, AMOUNTS and `leases` of each bucket and group, by start and groups. `after`: a later page."""
    rows = _rows(shape)
    start = func.date_trunc(text(shape.bucket), rows.c.starts_at, text("UTC")).label("start")
    divided = select(rows, start, *_groups(shape, rows)).subquery("divided")
    keys = [divided.c.start, *(divided.c[group_name(place)] for place in range(len(shape.groupings)))]
    query = select(*keys, *_sums(shape, divided, divided.c.start)).group_by(*keys)
    groups = query.subquery("found")
    order: list[Any] = [groups.c.start, *(cast(groups.c[key.name], Id) for key in keys[1:])]
    query = select(groups).order_by(*order).limit(bindparam("limit"))
    if not after:
        return query
    last = [bindparam("after_0", type_=Time), *(bindparam(f"after_{n}", type_=Id) for n in range(1, len(order)))]
    return query.where(tuple_(*order) > tuple_(*last))


@lru_cache(maxsize=64)
def total(shape: CostShape) -> AnySelect:
    """AMOUNTS and `leases` of the whole period, in one row."""
    rows = _rows(shape)
    return select(*_sums(shape, rows, _SINCE))


def _rows(shape: CostShape) -> Any:
    parts = [_stored_records(shape) if shape.needs_records else _stored_sums(shape)]
    if shape.live:
        live = _live(shape)
        parts.append(live if shape.needs_records else _live_sums(live))
    return union_all(*parts).subquery("rows")


def _owned(shape: CostShape) -> Any:
    return (lambda _column: true()) if shape.every_tenant else only


_RECORD = ("tenant_id", "starts_at", "lease_id", "labels", *DIMENSIONS, *AMOUNTS)


def _stored_records(shape: CostShape) -> AnySelect:
    columns = (of_record(usage_record, name).label(name) for name in _RECORD)
    return select(*columns).where(
        usage_record.c.starts_at >= _SINCE,
        usage_record.c.starts_at < _UNTIL,
        _owned(shape)(usage_record.c.tenant_id),
    )


def _stored_sums(shape: CostShape) -> AnySelect:
    names = ("tenant_id", "starts_at", *DIMENSIONS, *AMOUNTS, "leases", "leases_started")
    return select(*(cost_rollup.c[name] for name in names)).where(
        cost_rollup.c.step == text(shape.bucket.step),
        cost_rollup.c.starts_at >= _SINCE,
        cost_rollup.c.starts_at < _UNTIL,
        _owned(shape)(cost_rollup.c.tenant_id),
    )


def _live(shape: CostShape) -> Any:
    """Records of hours that are not closed, of attempts and of volumes."""
    owned = None if shape.every_tenant else only
    parts = (usage(overlapping(), owned).subquery("live"), volume_records.usage(owned).subquery("live_volumes"))
    return union_all(*map(_as_record, parts))


def _as_record(records: Any) -> AnySelect:
    columns = {name: of_record(records, name) for name in _RECORD if name in records.c}
    return select(*(columns.get(name, cast(null(), Numeric)).label(name) for name in _RECORD))


def _live_sums(records: Any) -> AnySelect:
    """In the form of the stored sums: a lease begins in its first hour without an earlier record. A volume is no lease."""
    hours = records.subquery("open_hours")
    alike = [hours.c.lease_id, hours.c.provider, hours.c.region, hours.c.market, hours.c.instance_type]
    is_first = func.min(hours.c.starts_at).over(partition_by=alike) == hours.c.starts_at
    counted = case((is_volume(hours), _ZERO), else_=_ONE)
    begins = case((and_(is_first, is_first_use(hours)), counted), else_=_ZERO)
    names = ("tenant_id", "starts_at", *DIMENSIONS, *AMOUNTS)
    return select(*(hours.c[name] for name in names), counted.label("leases"), begins.label("leases_started"))


def _groups(shape: CostShape, rows: Any) -> list[Any]:
    """A group without a value is the empty text: a lease without the label, or with an empty one."""
    columns = []
    for place, grouping in enumerate(shape.groupings):
        if grouping.dimension is None:
            value = rows.c.labels[bindparam(f"label_{place}", type_=Text)].astext
        else:
            value = rows.c[_COLUMNS.get(grouping.dimension, str(grouping.dimension))]
        columns.append(func.coalesce(value, _EMPTY).label(group_name(place)))
    return columns


def _sums(shape: CostShape, rows: Any, first: Any) -> list[Any]:
    if shape.needs_records:
        leases: Any = func.count(rows.c.lease_id.distinct()).filter(~is_volume(rows))
    else:
        leases = func.coalesce(func.sum(leases_of(rows, first)), _ZERO)
    return [*(func.sum(rows.c[name]).label(name) for name in AMOUNTS), leases.label("leases")]
