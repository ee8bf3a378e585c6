"""What live leases cost from now on, and what budgets have left. Parameters: AS_OF and the tenant."""

from functools import lru_cache
from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, and_, bindparam, func, literal_column, select, true

from app.db.core.column_types import Time
from app.db.core.tenant_scope import only
from app.db.leases.billing import cost, price_segments
from app.db.schema.tables import attempt, budget, lease, quota, quota_claim
from app.db.usage.facts import AS_OF
from app.db.usage.records import PRICED

MONTH_ENDS = "month_ends"
_AS_OF = bindparam(AS_OF, type_=Time)
_ZERO: ColumnElement[Any] = literal_column("0")
_RESOURCE = literal_column("'budget:'").op("||")(budget.c.id)


@lru_cache(maxsize=2)
def live_leases(*, every_tenant: bool) -> Select[Any]:
    """(run_rate, committed): USD an hour, and USD until the leases or the month end (MONTH_ENDS)."""
    ends_at = func.least(lease.c.expires_at, lease.c.cost_reached_at, bindparam(MONTH_ENDS, type_=Time))
    left = cost(lease.c.rate_per_hour, func.greatest(_AS_OF, lease.c.rate_since), ends_at)
    return select(
        func.coalesce(func.sum(lease.c.rate_per_hour), _ZERO).label("run_rate"),
        func.coalesce(func.sum(left), _ZERO).label("committed"),
    ).where(lease.c.ended_at.is_(None), lease.c.rate_per_hour.is_not(None), _owned(lease, every_tenant=every_tenant))


@lru_cache(maxsize=2)
def budgets(*, every_tenant: bool) -> Select[Any]:
    """(id, amount, period_ends_at, spent, run_rate) of each budget, in the order of their ids.

    `spent`: USD in the present period until AS_OF, by ended and by live leases.
    """
    owned = _owned(budget, every_tenant=every_tenant)
    claims = (
        select(budget.c.id.label("budget_id"), budget.c.period_started_at, quota_claim.c.lease_id)
        .select_from(
            budget.join(
                quota_claim,
                and_(quota_claim.c.tenant_id == budget.c.tenant_id, quota_claim.c.resource == _RESOURCE),
            )
        )
        .where(owned)
        .cte("claims")
    )
    rates = (
        select(claims.c.budget_id, func.sum(lease.c.rate_per_hour).label("run_rate"))
        .select_from(claims.join(lease, lease.c.id == claims.c.lease_id))
        .group_by(claims.c.budget_id)
        .subquery("rates")
    )
    accrued = _accrued(claims)
    of_quota = and_(quota.c.tenant_id == budget.c.tenant_id, quota.c.resource == _RESOURCE)
    source = (
        budget.outerjoin(quota, of_quota)
        .outerjoin(rates, rates.c.budget_id == budget.c.id)
        .outerjoin(accrued, accrued.c.budget_id == budget.c.id)
    )
    spent = func.coalesce(quota.c.spent, _ZERO) + func.coalesce(accrued.c.cost, _ZERO)
    columns = (budget.c.id, budget.c.amount, budget.c.period_ends_at)
    run_rate = func.coalesce(rates.c.run_rate, _ZERO)
    return (
        select(*columns, spent.label("spent"), run_rate.label("run_rate"))
        .select_from(source)
        .where(owned)
        .order_by(budget.c.id)
    )


def _accrued(claims: CTE) -> Any:
    """(budget_id, cost): what the leases that hold a claim have cost in the budget's period."""
    ended = func.least(func.coalesce(attempt.c.billing_ended_at, _AS_OF), _AS_OF).label("billing_ended_at")
    billed = (
        select(*(attempt.c[name] for name in PRICED), ended)
        .where(attempt.c.lease_id.in_(select(claims.c.lease_id)), attempt.c.billing_started_at.is_not(None))
        .cte("billed")
    )
    segment = price_segments(billed)
    spent = cost(
        segment.c.rate_per_hour, func.greatest(segment.c.starts_at, claims.c.period_started_at), segment.c.ends_at
    )
    source = claims.join(billed, billed.c.lease_id == claims.c.lease_id).join(
        segment, segment.c.attempt_id == billed.c.id
    )
    return (
        select(claims.c.budget_id, func.sum(spent).label("cost"))
        .select_from(source)
        .group_by(claims.c.budget_id)
        .subquery("accrued")
    )


def _owned(table: Any, *, every_tenant: bool) -> Any:
    return true() if every_tenant else only(table.c.tenant_id)
