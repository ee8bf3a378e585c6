"""Statements about budgets as such. What leases hold of them is in `app.db.tenancy.commitments`."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    FromClause,
    Integer,
    Interval,
    Text,
    Update,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import Amount, AnySelect, Id, Json
from app.db.core.tenant_scope import owned
from app.db.leases.billing import accrued
from app.db.schema.tables import api_key, budget, lease, quota, quota_claim
from app.db.tenancy import commitments
from app.domain.budgets import PREFIX, resource_of

_ZERO: ColumnElement[Any] = literal_column("0")


def resource(budgets: FromClause) -> ColumnElement[str]:
    """The resource of the rows of quota and of claims that belong to a budget."""
    return literal_column(f"'{PREFIX}'", Text).concat(budgets.c.id)


_RESOURCE = resource(budget)
_BASE: ColumnElement[Any] = literal_column(
    commitments.base_of("quota_claim.base", lease="lease", start="budget.period_started_at")
)
_COUNTED = (
    select(func.coalesce(func.sum(func.greatest(accrued(lease, func.now()) - _BASE, _ZERO)), _ZERO).label("counted"))
    .select_from(quota_claim.join(lease, lease.c.id == quota_claim.c.lease_id))
    .where(quota_claim.c.tenant_id == budget.c.tenant_id, quota_claim.c.resource == _RESOURCE)
    .correlate(budget)
    .lateral("live")
)
_SPENT = func.round(quota.c.spent + _COUNTED.c.counted, 6)
_COMMITTED = func.greatest(func.round(quota.c.used - _COUNTED.c.counted, 6), _ZERO)
WITH_AMOUNTS = select(budget, _SPENT.label("spent"), _COMMITTED.label("committed")).select_from(
    budget.join(
        quota.join(_COUNTED, literal_column("TRUE")),
        (quota.c.tenant_id == budget.c.tenant_id) & (quota.c.resource == _RESOURCE),
    )
)
"""A budget with what is spent in its period, accrued costs of live leases included, and what these hold besides."""


def page(*, tenant_id: str | None, after: str | None, limit: int) -> AnySelect:
    """Budgets with their amounts, the newest first. `tenant_id` None: those of every tenant."""
    query = WITH_AMOUNTS.where(owned(budget.c.tenant_id, tenant_id))
    if after is not None:
        query = query.where(budget.c.id < after)
    return query.order_by(budget.c.id.desc()).limit(limit)


def get(budget_id: str, *, within: str | None) -> AnySelect:
    """One budget with its amounts, if it belongs to the tenant `within`."""
    return WITH_AMOUNTS.where(budget.c.id == budget_id, owned(budget.c.tenant_id, within))


def lock(budget_id: str, *, within: str | None) -> AnySelect:
    """The budget's row, locked until the transaction ends, if it belongs to the tenant `within`."""
    return select(budget).where(budget.c.id == budget_id, owned(budget.c.tenant_id, within)).with_for_update()


def count(tenant_id: str, key_id: str | None) -> AnySelect:
    """(budgets, shared, of_key): how many a tenant has, without those of keys, and for this key. Lock the tenant first."""
    shared, of_key = (func.count().filter(which) for which in (budget.c.key_id.is_(None), budget.c.key_id == key_id))
    numbers = (func.count().label("budgets"), shared.label("shared"), of_key.label("of_key"))
    return select(*numbers).where(budget.c.tenant_id == tenant_id)


def key_exists(tenant_id: str, key_id: str) -> AnySelect:
    """A row when the tenant has this API key."""
    return select(api_key.c.id).where(api_key.c.id == key_id, api_key.c.tenant_id == tenant_id)


def limiting(tenant_id: str, key_id: str) -> AnySelect:
    """A row when a budget of this API key refuses what does not fit."""
    own = (budget.c.tenant_id == tenant_id, budget.c.key_id == key_id, budget.c.when_exceeded != "notify")
    return select(budget.c.id).where(*own).limit(1)


def ceiling(tenant_id: str) -> AnySelect:
    """(amount) of the lowest budget that operators set for the tenant as a whole; null without one."""
    whole = (budget.c.tenant_id == tenant_id, budget.c.kind == "tenant", budget.c.set_by == "operator")
    return select(func.min(budget.c.amount).label("amount")).where(*whole)


def add(values: Mapping[str, Any]) -> Insert:
    """The budget's row."""
    return insert(budget).values(**values)


def add_counter(tenant_id: str, budget_id: str, limit: Decimal | None) -> Insert:
    """The budget's row of quota, which counts what is spent and held."""
    return insert(quota).values(tenant_id=tenant_id, resource=resource_of(budget_id), limit=limit)


def change(budget_id: str, values: Mapping[str, Any]) -> Update:
    """Writes `values` and increments the version."""
    stamp = {"version": budget.c.version + 1, "updated_at": func.now()}
    return update(budget).where(budget.c.id == budget_id).values({**values, **stamp})


def set_limit(tenant_id: str, budget_id: str, limit: Decimal | None) -> Update:
    """Writes the limit of the budget's row of quota. What leases hold stays."""
    own = (quota.c.tenant_id == tenant_id, quota.c.resource == resource_of(budget_id))
    return update(quota).where(*own).values(limit=limit)


def remove(budget_id: str) -> Delete:
    """Deletes the budget's row. Call `commitments.begin_period` and `remove_counter` after it."""
    return delete(budget).where(budget.c.id == budget_id)


def remove_counter(tenant_id: str, budget_id: str) -> Delete:
    """Deletes the budget's row of quota, which no lease holds any more."""
    return delete(quota).where(quota.c.tenant_id == tenant_id, quota.c.resource == resource_of(budget_id))


# --- the job ----------------------------------------------------------------------------------------------


def with_amounts(budget_ids: list[str]) -> AnySelect:
    """Budgets with their amounts, in the order of their ids."""
    return WITH_AMOUNTS.where(budget.c.id.in_(budget_ids)).order_by(budget.c.id)


def mark_threshold(budget_id: str, threshold: int, *, before: int, since: datetime) -> Update:
    """Records the highest threshold with an event. No row when another process did, or a new period began."""
    unchanged = (budget.c.threshold_told == before, budget.c.period_started_at == since)
    return (
        update(budget)
        .where(budget.c.id == budget_id, *unchanged)
        .values(threshold_told=threshold)
        .returning(budget.c.id)
    )


_HOLDERS = text(
    f"""
    SELECT l.id AS lease_id, {commitments.PRESENT_RATE} AS rate_per_hour, c.amount AS committed,
        l.desired = 'end' OR coalesce(least(l.expires_at, l.cost_reached_at) <= now(), FALSE) AS ending,
        {commitments.stored(f"greatest({commitments.ACCRUED} - {commitments.base_of('c.base')}, 0)")} AS counted
    FROM quota_claim c JOIN lease l ON l.id = c.lease_id
    JOIN budget b ON b.tenant_id = c.tenant_id AND {commitments.RESOURCE} = c.resource
    WHERE c.tenant_id = :tenant_id AND c.resource = :resource AND {commitments.LIVE}
    """
)


def holders(tenant_id: str, budget_id: str) -> Bound[Any]:
    """The live leases that the budget counts: the fields of `app.domain.budgets.Holder`.

    A lease whose term is over is ending: its next step ends it, with the reason of its term.
    """
    return Bound(_HOLDERS, {"tenant_id": tenant_id, "resource": resource_of(budget_id)})


def spent_by_ended(tenant_id: str, budget_id: str) -> AnySelect:
    """(spent): USD of leases that ended in the period."""
    return select(quota.c.spent).where(quota.c.tenant_id == tenant_id, quota.c.resource == resource_of(budget_id))


# --- which budgets leave no room --------------------------------------------------------------------------

_ASKED_BY_NEW = commitments.commitment(":rate", so_far="0", room=":max_cost", left=":max_cost")
_FOR_NEW = text(
    f"""
    SELECT n.id, {_ASKED_BY_NEW} * CAST(:members AS int) AS asked FROM (
        SELECT b.id, {commitments.hours_until("now() + :ttl")} FROM budget b
        WHERE b.tenant_id = :tenant_id AND {commitments.counts(":key_id", ":labels")}) n
    """
).bindparams(
    bindparam("rate", type_=Amount),
    bindparam("max_cost", type_=Amount),
    bindparam("ttl", type_=Interval),
    bindparam("key_id", type_=Id),
    bindparam("labels", type_=Json),
    bindparam("members", type_=Integer),
)
_FOR_LEASES = text(
    f"""
    WITH {commitments.held_by("l.id = ANY(CAST(:leases AS text[]))", rate=commitments.PRESENT_RATE, joining=commitments.BASE_NOW)}
    SELECT substr(w.resource, {len(PREFIX) + 1}) AS id, sum(w.amount - coalesce(c.amount, 0)) AS asked
    FROM budgeted w LEFT JOIN quota_claim c ON c.lease_id = w.lease_id AND c.resource = w.resource GROUP BY w.resource
    """
)


def asked_by_new(parameters: Mapping[str, Any]) -> Bound[Any]:
    """(id, asked): what new leases would hold of the budgets that count them. `parameters`: those of `quotas.ADMIT`."""
    names = ("tenant_id", "rate", "ttl", "max_cost", "key_id", "labels", "members")
    return Bound(_FOR_NEW, {name: parameters[name] for name in names})


def asked_by(lease_ids: Collection[str]) -> Bound[Any]:
    """(id, asked): what leases would hold besides of the budgets that count them, after what the transaction wrote."""
    return Bound(_FOR_LEASES, {"leases": list(lease_ids)})


def of_ids(budget_ids: list[str], *, within: str | None) -> AnySelect:
    """Budgets with their amounts that refuse, in the order of their ids."""
    refusing = budget.c.when_exceeded != "notify"
    return WITH_AMOUNTS.where(budget.c.id.in_(budget_ids), refusing, owned(budget.c.tenant_id, within)).order_by(
        budget.c.id
    )
