"""Events that are caused by time or by use, not by a change. Each is recorded once."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, literal_column, not_, or_, select, text
from sqlalchemy.sql.dml import ReturningInsert

from app.db.core.column_types import Time
from app.db.core.prepared import Bound
from app.db.events.events import NewEvent
from app.db.leases.billing import accrued, ends_at
from app.db.leases.transitions import write
from app.db.schema.tables import lease
from app.domain.events import LeaseCapNear, LeaseExpiringSoon
from app.domain.ids import LeaseId

_UNTOLD = or_(lease.c.expiry_told_for.is_(None), lease.c.expiry_told_for < lease.c.expires_at)
_SAME = lease.c.expires_at == bindparam("shown_at", type_=Time)
_RUNS = (lease.c.state.not_in(["released", "failed", "releasing"]), lease.c.desired == "run")


def expiring(within: timedelta, limit: int) -> Select[Any]:
    """(id, expires_at) of leases that end within `within` and whose owners have had no notice."""
    return (
        select(lease.c.id, lease.c.expires_at)
        .where(lease.c.state.not_in(["failed", "released"]), *_RUNS, _UNTOLD)
        .where(lease.c.expires_at <= func.now() + within)
        .order_by(lease.c.expires_at)
        .limit(limit)
    )


def tell_expiring(lease_id: LeaseId, expires_at: datetime) -> Bound[ReturningInsert[Any]]:
    """Records one notice for each `expires_at`.

    After an extension, the owner gets another notice before the new end.
    """
    return write(
        lease_id,
        NewEvent(LeaseExpiringSoon(expires_at=expires_at)),
        where=[*_RUNS, _UNTOLD, _SAME],
        given={"shown_at": expires_at},
        values={"expiry_told_for": expires_at},
    )


_CAP_SHARE: ColumnElement[Any] = literal_column("0.8")
_SPENT = accrued(lease, func.now())
_CAP_NEAR = (lease.c.max_cost.is_not(None), not_(lease.c.cap_told), lease.c.max_cost * _CAP_SHARE <= _SPENT)


def near_cap(limit: int) -> Select[Any]:
    """(id, max_cost, accrued, ends_at) of leases that have cost 80 % of their cap and whose owners have had no notice."""
    return (
        select(lease.c.id, lease.c.max_cost, _SPENT.label("accrued"), ends_at(lease).label("ends_at"))
        .where(lease.c.state.not_in(["failed", "released"]), *_RUNS, *_CAP_NEAR)
        .order_by(lease.c.id)
        .limit(limit)
    )


def tell_cap_near(lease_id: LeaseId, data: LeaseCapNear) -> Bound[ReturningInsert[Any]]:
    """Records one notice for each cap."""
    return write(lease_id, NewEvent(data), where=[*_RUNS, *_CAP_NEAR], values={"cap_told": True})


def owners(lease_ids: Iterable[str]) -> Select[Any]:
    """(id, tenant_id) of leases."""
    return select(lease.c.id, lease.c.tenant_id).where(lease.c.id.in_(sorted(lease_ids)))


# These statements skip rows that another transaction has locked, until the next run. They never wait for a lock while
# they hold others, so they block nobody.
NEARLY_USED = text(
    """
    WITH found AS (
        SELECT tenant_id, resource FROM quota
        WHERE NOT nearly_told AND "limit" > 0 AND used >= 0.9 * "limit" AND resource NOT LIKE 'budget:%'
        ORDER BY tenant_id, resource FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE quota q SET nearly_told = true FROM found
    WHERE q.tenant_id = found.tenant_id AND q.resource = found.resource
    RETURNING q.tenant_id, q.resource, q."limit", q.used
    """
)
"""Marks quotas of which nine tenths are used. The caller records their notices in the same transaction."""

USED_LESS = text(
    """
    WITH found AS (
        SELECT tenant_id, resource FROM quota
        WHERE nearly_told AND ("limit" IS NULL OR used < 0.8 * "limit")
        ORDER BY tenant_id, resource FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE quota q SET nearly_told = false FROM found
    WHERE q.tenant_id = found.tenant_id AND q.resource = found.resource
    """
)
"""Below eight tenths, a new notice is allowed."""
