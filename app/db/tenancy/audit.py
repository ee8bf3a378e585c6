"""Statements of the audit trail: append and read."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.statements import AnySelect
from app.db.schema.tables import audit


def append(values: dict[str, Any]) -> Insert:
    """One entry. `values`: id, tenant_id, principal, role, action, target, before, after, address, request_id."""
    return insert(audit).values(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """All that is given must hold. None or empty means any. `about`: the target of the change."""

    types: frozenset[str] = frozenset()
    about: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same in SQL."""
        conditions: list[ColumnElement[bool]] = []
        if self.types:
            conditions.append(audit.c.action.in_(sorted(self.types)))
        if self.about is not None:
            conditions.append(audit.c.target == self.about)
        if self.created_after is not None:
            conditions.append(audit.c.at > self.created_after)
        if self.created_before is not None:
            conditions.append(audit.c.at < self.created_before)
        return conditions


ANY = AuditFilter()

_SHOWN = (*(column for column in audit.c if column.name != "at"), audit.c.at.label("created_at"))


def page(*, tenant_id: str | None, after: str | None, limit: int, wanted: AuditFilter = ANY) -> AnySelect:
    """Entries that match, newest first. `tenant_id` None: of the whole installation."""
    found = select(*_SHOWN).where(*wanted.conditions()).order_by(audit.c.id.desc()).limit(limit)
    if tenant_id is not None:
        found = found.where(audit.c.tenant_id == tenant_id)
    return found if after is None else found.where(audit.c.id < after)
