"""Statements of the audit trail: append and read."""

from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.sql import AnySelect
from app.db.schema.tables import api_key, audit, lease, lease_group, tenant, volume
from app.domain.list_filters import AuditFilter


def append(values: dict[str, Any]) -> Insert:
    """One entry. `values`: id, tenant_id, principal, role, action, target, before, after, address, request_id."""
    return insert(audit).values(values)


def _conditions(criteria: AuditFilter) -> list[ColumnElement[bool]]:
    """What the filter means in SQL."""
    conditions: list[ColumnElement[bool]] = []
    if criteria.types:
        conditions.append(audit.c.action.in_(sorted(criteria.types)))
    if criteria.about is not None:
        conditions.append(audit.c.target == criteria.about)
    if criteria.created_after is not None:
        conditions.append(audit.c.at > criteria.created_after)
    if criteria.created_before is not None:
        conditions.append(audit.c.at < criteria.created_before)
    return conditions


ANY = AuditFilter()

_KEY = api_key.alias("principal_key")
_PRINCIPAL_NAME = select(_KEY.c.name).where(_KEY.c.id == audit.c.principal).scalar_subquery()
_TARGET_NAME = func.coalesce(
    *(
        select(table.c.name).where(table.c.id == audit.c.target).scalar_subquery()
        for table in (lease, lease_group, volume, api_key, tenant)
    )
)
_SHOWN = (
    *(column for column in audit.c if column.name != "at"),
    audit.c.at.label("created_at"),
    _PRINCIPAL_NAME.label("principal_name"),
    _TARGET_NAME.label("target_name"),
)


def page(*, tenant_id: str | None, after: str | None, limit: int, criteria: AuditFilter = ANY) -> AnySelect:
    """Entries that match, newest first. `tenant_id` None: of the whole installation."""
    query = select(*_SHOWN).where(*_conditions(criteria)).order_by(audit.c.id.desc()).limit(limit)
    if tenant_id is not None:
        query = query.where(audit.c.tenant_id == tenant_id)
    return query if after is None else query.where(audit.c.id < after)
