"""Statements about API keys."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Update, and_, bindparam, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from app.db.core.compiled import Query
from app.db.core.sql import AnyInsert, AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import api_key

_LIVE: ColumnElement[bool] = and_(
    api_key.c.revoked_at.is_(None), or_(api_key.c.expires_at.is_(None), api_key.c.expires_at > func.now())
)
_PUBLIC = (
    api_key.c.id,
    api_key.c.tenant_id,
    api_key.c.role,
    api_key.c.name,
    api_key.c.created_at,
    api_key.c.expires_at,
    api_key.c.revoked_at,
    api_key.c.last_used_at,
    api_key.c.previous_valid_until,
)


def _seconds_until(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.extract("epoch", column - func.now())


_CHECK = select(
    api_key.c.id,
    api_key.c.tenant_id,
    api_key.c.role,
    api_key.c.name,
    api_key.c.secret_hash,
    api_key.c.previous_secret_hash,
    _seconds_until(api_key.c.expires_at).label("seconds_left"),
    _seconds_until(api_key.c.previous_valid_until).label("previous_seconds_left"),
).where(api_key.c.id == bindparam("key_id"), _LIVE)

CHECK = Query(_CHECK)
"""The live key `key_id`, with its hashes: for the key check alone."""


def check(key_id: str) -> AnySelect:
    """The same as a statement."""
    return _CHECK.params(key_id=key_id)


def touch(key_ids: Iterable[str]) -> Update:
    """Notes that these keys were used, at most once a minute each."""
    stale = or_(api_key.c.last_used_at.is_(None), api_key.c.last_used_at < func.now() - text("interval '1 minute'"))
    return update(api_key).where(api_key.c.id.in_(sorted(key_ids)), stale).values(last_used_at=func.now())


def count(tenant_id: str) -> AnySelect:
    """The number of live keys of a tenant. Lock the tenant first."""
    return select(func.count()).select_from(api_key).where(api_key.c.tenant_id == tenant_id, _LIVE)


def add(values: dict[str, Any]) -> AnyInsert:
    """A new key; answers its public columns."""
    return insert(api_key).values(values).returning(*_PUBLIC)


def get(key_id: str, *, within: str | None, lock: bool = False) -> AnySelect:
    """Public columns of one key of the tenant `within` (None: of any). `lock`: until the transaction ends."""
    query = select(*_PUBLIC).where(api_key.c.id == key_id, owned(api_key.c.tenant_id, within))
    return query.with_for_update() if lock else query


def page(tenant_id: str, *, after: str | None, limit: int) -> AnySelect:
    """Keys of a tenant, newest first, revoked ones included."""
    query = select(*_PUBLIC).where(api_key.c.tenant_id == tenant_id)
    if after is not None:
        query = query.where(api_key.c.id < after)
    return query.order_by(api_key.c.id.desc()).limit(limit)


def of_no_tenant() -> AnySelect:
    """Live keys of the installation itself, newest first: of operators and of the dead-man switch."""
    return select(*_PUBLIC).where(api_key.c.tenant_id.is_(None), _LIVE).order_by(api_key.c.id.desc())


def revoke(key_id: str, *, within: str | None) -> Update:
    """Ends a key of the tenant `within` (None: of any); a second time changes nothing. Answers its public columns."""
    return (
        update(api_key)
        .where(api_key.c.id == key_id, owned(api_key.c.tenant_id, within))
        .values(
            revoked_at=func.coalesce(api_key.c.revoked_at, func.now()),
            previous_secret_hash=None,
            previous_valid_until=None,
        )
        .returning(*_PUBLIC)
    )


def rotate(key_id: str, secret_hash: bytes, overlap_seconds: int, *, within: str | None) -> Update:
    """A new secret; the old one stays valid for a while. No row when the key is no longer live, or not of the tenant `within`."""
    until = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, overlap_seconds)
    return (
        update(api_key)
        .where(api_key.c.id == key_id, owned(api_key.c.tenant_id, within), _LIVE)
        .values(
            secret_hash=secret_hash,
            previous_secret_hash=api_key.c.secret_hash if overlap_seconds else None,
            previous_valid_until=until if overlap_seconds else None,
        )
        .returning(*_PUBLIC)
    )
