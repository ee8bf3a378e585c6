"""Statements that read and set limits. Those that reserve and release quota are in `app.db.tenancy.quotas`."""

from collections.abc import Mapping
from decimal import Decimal

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.sql import AnySelect
from app.db.schema.tables import quota
from app.domain.budgets import PREFIX

NO_BUDGET = quota.c.resource.not_like(f"{PREFIX}%")
"""Rows of quota that are no counters of budgets."""


def of_tenant(tenant_id: str) -> AnySelect:
    """Limit and use of each resource, by name."""
    return (
        select(quota.c.resource, quota.c.limit, quota.c.used)
        .where(quota.c.tenant_id == tenant_id, NO_BUDGET)
        .order_by(quota.c.resource)
    )


def set_limits(tenant_id: str, limits: Mapping[str, Decimal | None]) -> Insert:
    """Writes these limits. Other limits, and the amounts in use, stay unchanged. `limits` must not be empty.

    The rows are sorted, so that concurrent statements lock rows in the same order as admissions do.
    """
    rows = [{"tenant_id": tenant_id, "resource": name, "limit": limit} for name, limit in sorted(limits.items())]
    statement = insert(quota).values(rows)
    return statement.on_conflict_do_update(
        index_elements=[quota.c.tenant_id, quota.c.resource], set_={"limit": statement.excluded.limit}
    )
