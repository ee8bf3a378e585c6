"""Counts and amounts over leases that have not ended."""

from functools import lru_cache

from sqlalchemy import bindparam, func, select, true

from app.db.core.sql import AnySelect, Time
from app.db.core.tenant_scope import only
from app.db.leases.billing import accrued
from app.db.schema.leases import LIVE
from app.db.schema.tables import lease

_AS_OF = bindparam("as_of", type_=Time)


@lru_cache(maxsize=2)
def by_state(*, every_tenant: bool) -> AnySelect:
    """By state: leases, GPUs, USD per hour, and `accrued`: USD from the start of each lease until `as_of`.

    Parameters: as_of, and `tenant_scope.parameter`, which is a tenant unless `every_tenant`.
    """
    columns = (
        lease.c.state,
        func.count().label("leases"),
        func.coalesce(func.sum(lease.c.gpu_count), 0).label("gpus"),
        func.coalesce(func.sum(lease.c.rate_per_hour), 0).label("spend_per_hour"),
        func.sum(accrued(lease, _AS_OF)).label("accrued"),
    )
    owned = true() if every_tenant else only(lease.c.tenant_id)
    return select(*columns).where(LIVE, owned).group_by(lease.c.state).order_by(lease.c.state)
