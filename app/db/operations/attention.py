"""What a tenant should look at: leases that are interrupted, stuck, failed or about to end, and quotas nearly used."""

from datetime import timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    case,
    cast,
    func,
    literal,
    literal_column,
    null,
    select,
    true,
    union_all,
)

from app.db.core.sql import AnySelect, Time
from app.db.core.tenant_scope import only
from app.db.operations.ops import StuckAfter, stuck_rows
from app.db.schema.leases import LIVE
from app.db.schema.tables import lease, quota
from app.db.tenancy.quota_limits import NO_BUDGET
from app.domain.attention import AttentionCode
from app.domain.leases import LeaseState

_NEARLY: ColumnElement[Any] = literal_column("0.9")
_NONE: ColumnElement[Any] = null()


@lru_cache(maxsize=8)
def attention(
    after: StuckAfter, *, soon: timedelta, failed_within: timedelta, limit: int, every_tenant: bool
) -> AnySelect:
    """Rows `code, tenant_id, lease_id, name, created_at, expires_at, message, total`, the most urgent first; `total`: before the limit.

    Parameters: `tenant_scope.parameter`, which is a tenant unless `every_tenant`. `name` is the lease's, or the resource of a quota. `created_at`: the begin of the need, null for a quota. `expires_at`: of a lease that expires soon.
    """
    reason = lease.c.reason["message"].astext
    columns = (lease.c.tenant_id, lease.c.id, lease.c.name)
    allowed = (lambda _column: true()) if every_tenant else only
    owned = allowed(lease.c.tenant_id)
    slow = stuck_rows(after)
    active = lease.c.state == literal_column(f"'{LeaseState.ACTIVE}'")
    failed = lease.c.state == literal_column(f"'{LeaseState.FAILED}'")
    parts = union_all(
        _part(AttentionCode.INTERRUPTED, *columns, cast(lease.c.interruption["notice_at"].astext, Time)).where(
            LIVE, lease.c.interruption.is_not(None), owned
        ),
        _part(AttentionCode.STUCK, *columns, slow.c.since, message=slow.c.kind)
        .select_from(slow.join(lease, lease.c.id == slow.c.lease_id))
        .where(owned, allowed(slow.c.tenant_id)),
        _part(AttentionCode.FAILED, *columns, lease.c.ended_at, message=reason).where(
            lease.c.ended_at > func.now() - literal(failed_within), failed, owned
        ),
        _part(
            AttentionCode.EXPIRING_SOON, *columns, lease.c.expires_at - literal(soon), expires_at=lease.c.expires_at
        ).where(LIVE, active, lease.c.expires_at < func.now() + literal(soon), owned),
        _part(AttentionCode.QUOTA_NEARLY_USED, quota.c.tenant_id, null(), quota.c.resource, null()).where(
            quota.c.limit > 0, quota.c.used >= _NEARLY * quota.c.limit, NO_BUDGET, allowed(quota.c.tenant_id)
        ),
    ).subquery("attention")
    urgency = case({str(code): place for place, code in enumerate(AttentionCode)}, value=parts.c.code)
    total = func.count().over().label("total")
    return (
        select(parts, total)
        .order_by(urgency, parts.c.expires_at, parts.c.created_at.desc(), parts.c.lease_id)
        .limit(limit)
    )


def _part(
    code: AttentionCode,
    tenant: Any,
    lease_id: Any,
    name: Any,
    created_at: Any,
    *,
    expires_at: Any = _NONE,
    message: Any = _NONE,
) -> AnySelect:
    return select(
        literal_column(f"'{code}'", Text).label("code"),
        tenant.label("tenant_id"),
        cast(lease_id, Text).label("lease_id"),
        name.label("name"),
        cast(created_at, Time).label("created_at"),
        cast(expires_at, Time).label("expires_at"),
        cast(message, Text).label("message"),
    )
