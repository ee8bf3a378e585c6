"""Statements of the audit trail: append and read."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.schema.tables import audit


def append(values: dict[str, Any]) -> Insert:
    """One entry. `values`: id, tenant_id, principal, role, action, target, before, after, address, request_id."""
    return insert(audit).values(values)


def page(*, tenant_id: str | None, after: str | None, limit: int) -> Select[Any]:
    """Entries, newest first. `tenant_id` None: of the whole installation."""
    found = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if tenant_id is not None:
        found = found.where(audit.c.tenant_id == tenant_id)
    return found if after is None else found.where(audit.c.id < after)
