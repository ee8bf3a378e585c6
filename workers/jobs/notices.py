"""Tells what nobody did: a lease that ends soon, a quota that is nearly used, a VM that outlived its lease and is gone."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.db.events import events, notices
from app.domain.ids import LeaseId, TenantId
from app.domain.quotas import SPEND_PER_HOUR
from workers.runtime import Runtime

_LEASES = 500


def tell(runtime: Runtime, _account: str, _region: str) -> int:
    """Answers how many events it told."""
    return _tell_expiring(runtime) + _tell_quotas(runtime)


def _tell_expiring(runtime: Runtime) -> int:
    soon = timedelta(seconds=runtime.settings.expiry_notice_seconds)
    told = 0
    for row in runtime.database.all(notices.expiring(soon, _LEASES)):
        statement = notices.tell_expiring(LeaseId(row.id), row.expires_at, _rfc3339(row.expires_at))
        told += runtime.database.run(statement).rowcount
    return told


def _tell_quotas(runtime: Runtime) -> int:
    with runtime.database.begin() as connection:
        connection.execute(notices.USED_LESS)
        rows = connection.execute(notices.NEARLY_USED).all()
        for row in rows:
            told = events.NewEvent(type="quota.nearly_used", data=_quota(row))
            connection.execute(events.append(TenantId(row.tenant_id), told))
    return len(rows)


def _quota(row: Row[Any]) -> dict[str, Any]:
    places = 6 if row.resource == SPEND_PER_HOUR else 0
    return {"resource": row.resource, "limit": f"{row.limit:.{places}f}", "used": f"{row.used:.{places}f}"}


def tell_orphans(connection: Connection, gone: Iterable[Row[Any]]) -> None:
    """In the transaction that noticed it, to the tenant whose lease it was. One without a lease is the operators' alone.

    So is one with copied tags: the lease that they name never had it.
    """
    known = {row.instance_id: row for row in gone if row.lease_id is not None and row.cause != "copied_tags"}
    if not known:
        return
    owners = connection.execute(notices.owners({row.lease_id for row in known.values()})).all()
    tenants = {row.id: row.tenant_id for row in owners}
    for row in known.values():
        if row.lease_id in tenants:
            told = events.NewEvent(type="orphan.ended", data=_orphan(row))
            connection.execute(events.append(TenantId(tenants[row.lease_id]), told))


def _orphan(row: Row[Any]) -> dict[str, Any]:
    return {
        "lease_id": row.lease_id,
        "instance_id": row.instance_id,
        "region": row.region,
        "zone": row.zone,
        "cause": row.cause,
        "first_seen_at": _rfc3339(row.first_seen_at),
        "ended_by_us": row.end_requested_at is not None,
    }


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
