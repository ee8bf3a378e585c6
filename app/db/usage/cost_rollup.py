"""Sums of usage records by hour and by day: for each tenant, as divided by DIMENSIONS.

The sums of an hour are made anew from its records, and those of a day from its hours. Making them twice changes nothing.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    Delete,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.schema.tables import cost_rollup, usage_record
from app.db.usage.facts import text
from app.domain.usage import UNKNOWN, VOLUME, UsageStep

DIMENSIONS = ("provider", "region", "gpu_model", "market", "instance_type")
AMOUNTS = ("compute_cost", "disk_cost", "address_cost", "list_cost", "gpu_hours", "idle_gpu_hours", "idle_cost")
COUNTS = ("leases", "leases_started")

_ONE, _ZERO = literal_column("1", Integer), literal_column("0", Integer)
_UNKNOWN, _VOLUME = text(UNKNOWN), text(VOLUME)
_KEYS = ("tenant_id", "starts_at", *DIMENSIONS)

Step = tuple[str, datetime]
"""A tenant and the start of an hour or day."""


def _touched() -> Any:
    tenants = bindparam("tenants", type_=ARRAY(Text))
    starts = bindparam("starts", type_=ARRAY(Time))
    return func.unnest(tenants, starts).table_valued("tenant_id", "starts_at", name="touched").render_derived()


def _parameters(steps: Collection[Step]) -> dict[str, Any]:
    ordered = sorted(steps)
    return {"tenants": [tenant for tenant, _ in ordered], "starts": [start for _, start in ordered]}


def of_record(records: Any, name: str) -> Any:
    """A column of a selectable with the columns of usage_record, as the sums are divided by. Volumes are a GPU model."""
    if name != "gpu_model":
        return records.c[name]
    return case((is_volume(records), _VOLUME), else_=func.coalesce(records.c.gpu_model, _UNKNOWN))


def is_volume(records: Any) -> Any:
    """Whether a record is that of a volume."""
    return records.c.instance_type == _VOLUME


def is_first_use(records: Any) -> Any:
    """Whether the lease of a record has no earlier record of the same kind of machine."""
    earlier = usage_record.alias("earlier")
    same = (earlier.c[name] == records.c[name] for name in ("provider", "region", "market", "instance_type"))
    return ~exists().where(earlier.c.lease_id == records.c.lease_id, earlier.c.starts_at < records.c.starts_at, *same)


def _of_hours() -> AnySelect:
    """First by lease, since a lease whose records add up to nothing is none."""
    touched = _touched()
    source = touched.join(
        usage_record,
        and_(usage_record.c.tenant_id == touched.c.tenant_id, usage_record.c.starts_at == touched.c.starts_at),
    )
    keys = [of_record(usage_record, name).label(name) for name in _KEYS]
    amounts = [func.sum(usage_record.c[name]).label(name) for name in AMOUNTS]
    used = case((func.sum(usage_record.c.seconds) > _ZERO, _ONE), else_=_ZERO)
    begins = case((func.bool_and(is_first_use(usage_record)), used), else_=_ZERO)
    by_lease = (
        select(*keys, *amounts, used.label("leases"), begins.label("leases_started"))
        .select_from(source)
        .group_by(*keys, usage_record.c.lease_id)
        .subquery("by_lease")
    )
    return _sums(by_lease, by_lease.c.starts_at, by_lease.c.leases)


def _of_days() -> AnySelect:
    """A lease counts in the first hour of the day, or in the one in which it begins."""
    touched = _touched()
    hours = and_(
        cost_rollup.c.tenant_id == touched.c.tenant_id,
        cost_rollup.c.step == text(UsageStep.HOUR),
        cost_rollup.c.starts_at >= touched.c.starts_at,
        cost_rollup.c.starts_at < touched.c.starts_at + literal_column("interval '24 hours'"),
    )
    records = (
        select(cost_rollup, cast(touched.c.starts_at, Time).label("day"))
        .select_from(touched.join(cost_rollup, hours))
        .subquery("hours")
    )
    return _sums(records, records.c.day, leases_of(records, records.c.day))


def leases_of(steps: Any, bucket: Any) -> Any:
    """What a step adds to the leases of its bucket: all in the first step, later those that begin."""
    return case((steps.c.starts_at == bucket, steps.c.leases), else_=steps.c.leases_started)


def _sums(records: Any, starts_at: Any, leases: Any) -> AnySelect:
    keys = [records.c.tenant_id, starts_at, *(records.c[name] for name in DIMENSIONS)]
    added = [*(records.c[name] for name in AMOUNTS), leases, records.c.leases_started]
    return select(*keys, *(func.sum(column) for column in added)).group_by(*keys)


def _insert(step: UsageStep, rows: AnySelect) -> Insert:
    names = [*_KEYS, *AMOUNTS, *COUNTS, "step"]
    return insert(cost_rollup).from_select(names, rows.add_columns(text(step)))


def _delete(step: UsageStep) -> Delete:
    touched = _touched()
    return delete(cost_rollup).where(
        cost_rollup.c.step == text(step),
        cost_rollup.c.tenant_id == touched.c.tenant_id,
        cost_rollup.c.starts_at == touched.c.starts_at,
    )


_STATEMENTS = {
    UsageStep.HOUR: (_delete(UsageStep.HOUR), _insert(UsageStep.HOUR, _of_hours())),
    UsageStep.DAY: (_delete(UsageStep.DAY), _insert(UsageStep.DAY, _of_days())),
}


def make_anew(step: UsageStep, steps: Collection[Step]) -> list[Bound[Any]]:
    """The statements that make the sums of these hours or days anew, in their order. Hours come before their days."""
    return [Bound(statement, _parameters(steps)) for statement in _STATEMENTS[step]]
