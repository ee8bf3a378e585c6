"""Statements that rebuild a lease from the tags of its VM, after the database lost the row."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Executable, Text, Update, bindparam, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.fleet.offerings import TYPE_COLUMNS
from app.db.schema.tables import attempt, lease, offering, orphan, tenant
from app.domain.ids import LeaseId, TenantId
from app.domain.leases import LIVE_ATTEMPT

_KEY = ("account", "region", "zone", "instance_type", "market")
_OFFERED = tuple_(*(offering.c[name] for name in _KEY)) == tuple_(*(orphan.c[name] for name in _KEY))
_REQUESTED = (
    select(orphan, *(offering.c[name] for name in TYPE_COLUMNS), offering.c.price_per_hour.label("offering_price"))
    .select_from(orphan.outerjoin(offering, _OFFERED))
    .where(
        orphan.c.account == bindparam("here_account", type_=Text),
        orphan.c.region == bindparam("here_region", type_=Text),
        orphan.c.state.in_(["seen", "ending"]),
        orphan.c.adopt_requested_at.is_not(None),
        orphan.c.adopt_error.is_(None),
    )
)


def requested(account: str, region: str) -> Bound[AnySelect]:
    """Open orphans that an operator wants adopted, with the facts of their offering as far as they are known."""
    return Bound(_REQUESTED, {"here_account": account, "here_region": region})


def tenant_exists(tenant_id: TenantId) -> AnySelect:
    """A row when there is such a tenant. Until the transaction ends, its budgets stay what they are."""
    return select(tenant.c.id).where(tenant.c.id == tenant_id).with_for_update(read=True)


def rebuild_lease(values: Mapping[str, Any]) -> Executable:
    """The lease, booting: it becomes active when the VM shows that it is ready. No row when it exists."""
    return insert(lease).values(**values).on_conflict_do_nothing().returning(lease.c.id)


def existing_lease(lease_id: LeaseId) -> AnySelect:
    """(tenant_id, state, attempts_count, group_id, group_retreat, live: the attempt that is under way, or None)."""
    live = (
        select(func.max(attempt.c.n))
        .where(attempt.c.lease_id == lease.c.id, attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT]))
        .scalar_subquery()
    )
    names = ("tenant_id", "state", "attempts_count", "group_id", "group_retreat")
    return select(*(lease.c[name] for name in names), live.label("live")).where(lease.c.id == lease_id)


def rebuild_attempts(rows: list[dict[str, Any]]) -> Insert:
    """The adopted attempt, and the earlier ones that the database lost, as dead."""
    return insert(attempt).values(rows)


_FORCE = text(
    """
    UPDATE quota q SET used = q.used + r.amount
    FROM unnest(CAST(:resources AS text[]), CAST(:amounts AS numeric[])) AS r (resource, amount)
    WHERE q.tenant_id = :tenant_id AND q.resource = r.resource
    """
)


def force_quota(tenant_id: TenantId, amounts: Mapping[str, Any]) -> Executable:
    """Counts what runs, whatever the limit: the VM is there.

    Call it after `quotas.lock_all`, and follow it with `quotas.remember`.
    """
    return _FORCE.bindparams(tenant_id=tenant_id, resources=list(amounts), amounts=list(amounts.values()))


def _is_orphan(account: str, region: str, instance_id: str) -> Any:
    return tuple_(orphan.c.account, orphan.c.region, orphan.c.instance_id) == tuple_(account, region, instance_id)


def adopted(account: str, region: str, instance_id: str) -> Update:
    """The VM has its lease again."""
    return update(orphan).where(_is_orphan(account, region, instance_id)).values(state="adopted", gone_at=func.now())


def not_adopted(account: str, region: str, instance_id: str, why: str) -> Update:
    """It stays an orphan, and says why."""
    return update(orphan).where(_is_orphan(account, region, instance_id)).values(adopt_error=why)
