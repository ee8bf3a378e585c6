"""What live leases and volumes cost from now on, and what budgets have left. Parameters: AS_OF and the tenant."""

from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, literal_column, or_, select, true

from app.db.core.sql import AnySelect, Time
from app.db.core.tenant_scope import only
from app.db.leases.billing import cost
from app.db.schema.tables import lease, quota_claim, volume
from app.db.tenancy.budgets import WITH_AMOUNTS, resource
from app.db.usage.facts import AS_OF
from app.db.usage.volume_records import rate as volume_rate

MONTH_ENDS = "month_ends"
_AS_OF = bindparam(AS_OF, type_=Time)
_ZERO: ColumnElement[Any] = literal_column("0")


@lru_cache(maxsize=2)
def live_leases(*, every_tenant: bool) -> AnySelect:
    """(run_rate, committed): USD an hour of leases and volumes, and USD until the leases or the month end (MONTH_ENDS)."""
    month_ends = bindparam(MONTH_ENDS, type_=Time)
    ends_at = func.least(lease.c.expires_at, lease.c.cost_reached_at, month_ends)
    left = cost(lease.c.rate_per_hour, func.greatest(_AS_OF, lease.c.rate_since), ends_at)
    of_volumes = volume_rate(_owned(volume, every_tenant=every_tenant))
    rest = cost(of_volumes, _AS_OF, month_ends)
    return select(
        (func.coalesce(func.sum(lease.c.rate_per_hour), _ZERO) + of_volumes).label("run_rate"),
        (func.coalesce(func.sum(left), _ZERO) + rest).label("committed"),
    ).where(lease.c.ended_at.is_(None), lease.c.rate_per_hour.is_not(None), _owned(lease, every_tenant=every_tenant))


@lru_cache(maxsize=2)
def budgets(*, every_tenant: bool) -> AnySelect:
    """(id, amount, period_ends_at, spent, counted_at, run_rate) of each budget, in the order of their ids.

    `spent`: USD at `counted_at`. `run_rate`: USD an hour.
    """
    budget = WITH_AMOUNTS.subquery("shown")
    run_rate = (
        select(func.coalesce(func.sum(lease.c.rate_per_hour), _ZERO))
        .select_from(quota_claim.join(lease, lease.c.id == quota_claim.c.lease_id))
        .where(quota_claim.c.tenant_id == budget.c.tenant_id, quota_claim.c.resource == resource(budget))
        .scalar_subquery()
    )
    labelled = volume.c.labels.op("->>")(budget.c.label_key) == budget.c.label_value
    of_volumes = volume_rate(
        volume.c.tenant_id == budget.c.tenant_id,
        or_(budget.c.key_id.is_(None), budget.c.key_id == volume.c.key_id),
        or_(budget.c.label_key.is_(None), labelled),
    )
    columns = (budget.c[name] for name in ("id", "amount", "period_ends_at", "spent"))
    owned = _owned(budget, every_tenant=every_tenant)
    return (
        select(*columns, func.now().label("counted_at"), (run_rate + of_volumes).label("run_rate"))
        .where(owned)
        .order_by(budget.c.id)
    )


def _owned(table: Any, *, every_tenant: bool) -> Any:
    return true() if every_tenant else only(table.c.tenant_id)
