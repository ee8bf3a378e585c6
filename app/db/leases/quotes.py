"""Statements of the API on quotes."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, insert, select

from app.db.core.sql import AnyInsert, AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import quote

_EXPIRED = (quote.c.valid_until <= func.now()).label("expired")


def add(values: dict[str, Any], *, valid_for: timedelta) -> AnyInsert:
    """Inserts a quote that is valid from now on, and returns its row."""
    return insert(quote).values(**values, valid_until=func.now() + valid_for).returning(quote, _EXPIRED)


def get(quote_id: str, *, within: str | None) -> AnySelect:
    """A quote and whether it has `expired`, if it belongs to the tenant `within`."""
    return select(quote, _EXPIRED).where(quote.c.id == quote_id, owned(quote.c.tenant_id, within))
