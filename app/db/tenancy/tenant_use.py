"""Tenants with their quotas and what they use at present, for operators."""

from sqlalchemy import Integer, Text, bindparam, cast, func, select, true

from app.db.core.compiled import Query
from app.db.core.sql import Id
from app.db.schema.leases import LIVE
from app.db.schema.tables import lease, quota, tenant
from app.db.tenancy.quota_limits import NO_BUDGET

_QUOTAS = (
    select(
        func.coalesce(
            func.json_agg(
                func.json_build_object(
                    "resource", quota.c.resource, "limit", cast(quota.c.limit, Text), "used", cast(quota.c.used, Text)
                )
            ),
            func.json_build_array(),
        ).label("quotas")
    )
    .where(quota.c.tenant_id == tenant.c.id, NO_BUDGET)
    .lateral("quotas")
)
_USE = (
    select(
        func.count().label("leases"),
        func.coalesce(func.sum(lease.c.gpu_count), 0).label("gpus"),
        func.coalesce(func.sum(lease.c.rate_per_hour), 0).label("spend_per_hour"),
    )
    .where(lease.c.tenant_id == tenant.c.id, LIVE)
    .lateral("use")
)


_TENANTS = (
    select(tenant.c.id, tenant.c.name, tenant.c.status, cast(_QUOTAS.c.quotas, Text).label("quotas"), *_USE.c)
    .select_from(tenant.join(_QUOTAS, true()).join(_USE, true()))
    .order_by(tenant.c.id.desc())
    .limit(bindparam("limit", type_=Integer))
)

COUNT = Query(select(func.count().label("total")).select_from(tenant))
"""The number of tenants: (total)."""

FIRST = Query(_TENANTS)
"""Tenants, newest first: id, name, status, `quotas` (JSON text: resource, limit, used as text), and what has not ended.

`leases`, `gpus` and `spend_per_hour` (USD) are those of leases that have not ended. Parameter: limit.
"""

FOLLOWING = Query(_TENANTS.where(tenant.c.id < bindparam("after", type_=Id)))
"""The same, after a tenant. Parameters: after, limit."""
