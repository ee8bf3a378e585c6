"""Events without an acting caller: a lease ends soon, a spend cap is near, GPUs are idle, a quota is nearly used, an orphaned VM has ended."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row

from app.db.events import events, notices
from app.domain.events import LeaseCapNear, LeaseExpiringSoon, OrphanEnded, QuotaNearlyUsed
from app.domain.ids import LeaseId, TenantId
from app.domain.money import format_money
from app.domain.quotas import json_amount
from workers.jobs.idle_notices import tell_idle
from workers.jobs.parts import apart
from workers.runtime import Runtime

_LEASES = 500


def tell(runtime: Runtime, _account: str, _region: str) -> int:
    """Writes the due notices. Returns the number of events."""
    return _tell_expiring(runtime) + _tell_near_cap(runtime) + tell_idle(runtime) + _tell_quotas(runtime)


def _tell_expiring(runtime: Runtime) -> int:
    count = 0
    for row in runtime.database.all(notices.expiring(runtime.settings.expiry_warnings_seconds, _LEASES)):
        event = LeaseExpiringSoon(expires_at=row.expires_at, ends_at=row.ends_at, seconds=row.seconds)
        with apart(runtime, "notices", lease_id=row.id):
            count += runtime.database.run(notices.tell_expiring(LeaseId(row.id), event))
    return count


def _tell_near_cap(runtime: Runtime) -> int:
    count = 0
    for row in runtime.database.all(notices.near_cap(_LEASES)):
        data = LeaseCapNear(max_cost=format_money(row.max_cost), accrued=format_money(row.accrued), ends_at=row.ends_at)
        with apart(runtime, "notices", lease_id=row.id):
            count += runtime.database.run(notices.tell_cap_near(LeaseId(row.id), data))
    return count


def _tell_quotas(runtime: Runtime) -> int:
    runtime.database.run(notices.USED_LESS)
    count = 0
    for tenant in runtime.database.all(notices.NEARLY_USED):
        with apart(runtime, "notices", tenant_id=tenant.tenant_id), runtime.database.begin() as connection:
            rows = connection.execute(*notices.mark_nearly_used(tenant.tenant_id)).all()
            for row in rows:
                connection.execute(events.append(TenantId(row.tenant_id), events.NewEvent(_quota(row))))
            count += len(rows)
    return count


def _quota(row: Row[Any]) -> QuotaNearlyUsed:
    limit, used = (json_amount(row.resource, amount) for amount in (row.limit, row.used))
    return QuotaNearlyUsed(resource=row.resource, limit=limit, used=used)


def tell_orphans(connection: Connection, gone: Iterable[Row[Any]]) -> None:
    """Writes an event for each ended orphan to the tenant of its lease, in the transaction that noticed the end.

    Tenants get no event for an orphan without a lease, nor for one with copied tags: the lease they name never had it.
    """
    known = {row.instance_id: row for row in gone if row.lease_id is not None and row.cause != "copied_tags"}
    if not known:
        return
    owners = connection.execute(notices.owners({row.lease_id for row in known.values()})).all()
    tenants = {row.id: row.tenant_id for row in owners}
    for row in known.values():
        if row.lease_id in tenants:
            event = events.NewEvent(_orphan(row))
            connection.execute(events.append(TenantId(tenants[row.lease_id]), event))


def _orphan(row: Row[Any]) -> OrphanEnded:
    return OrphanEnded(
        orphan_id=row.id,
        lease_id=row.lease_id,
        instance_id=row.instance_id,
        region=row.region,
        zone=row.zone,
        cause=row.cause,
        first_seen_at=row.first_seen_at,
        ended_by_us=row.end_requested_at is not None,
    )
