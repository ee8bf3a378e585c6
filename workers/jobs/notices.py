"""Events without an acting caller: a lease ends soon, a spend cap is near, GPUs are idle, a quota is nearly used."""

from typing import Any

from sqlalchemy import Row

from app.db.events import events
from app.db.leases import notices
from app.domain.events import LeaseCapNear, LeaseExpiringSoon, QuotaNearlyUsed
from app.domain.ids import LeaseId, TenantId
from app.domain.money import format_money
from app.domain.quotas import json_amount
from workers.jobs.idle_notices import tell_idle
from workers.jobs.parts import apart
from workers.runtime.runtime import Runtime

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
