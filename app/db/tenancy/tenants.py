"""Statements about tenants."""

from typing import Any

from sqlalchemy import Update, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from app.db.core.compiled import Query
from app.db.core.sql import AnyInsert, AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import tenant

GET = Query(select(tenant).where(tenant.c.id == bindparam("tenant_id")))
"""One tenant, `tenant_id`."""


def add(values: dict[str, Any]) -> AnyInsert:
    """A new tenant; answers its row, or none when the name is taken."""
    return insert(tenant).values(values).on_conflict_do_nothing(index_elements=[tenant.c.name]).returning(tenant)


def get(tenant_id: str, *, within: str | None, lock: bool = False) -> AnySelect:
    """One tenant, if it is the one that asks (`within` None: an operator asks). `lock`: until the transaction ends."""
    query = select(tenant).where(tenant.c.id == tenant_id, owned(tenant.c.id, within))
    return query.with_for_update(key_share=True) if lock else query


def page(*, after: str | None, limit: int) -> AnySelect:
    """Tenants, newest first."""
    query = select(tenant).order_by(tenant.c.id.desc()).limit(limit)
    return query if after is None else query.where(tenant.c.id < after)


def change(tenant_id: str, values: dict[str, Any]) -> Update:
    """Writes `values` and counts the version up; answers the row."""
    stamp = {"version": tenant.c.version + 1, "updated_at": func.now()}
    return update(tenant).where(tenant.c.id == tenant_id).values({**values, **stamp}).returning(tenant)
