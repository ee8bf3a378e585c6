"""Statements about the stored SSH keys of tenants."""

from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    Delete,
    Text,
    Update,
    and_,
    any_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from app.db.core.compiled import Compiled
from app.db.core.sql import AnyInsert, AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import ssh_key

_PUBLIC = (
    ssh_key.c.id,
    ssh_key.c.tenant_id,
    ssh_key.c.name,
    ssh_key.c.public_key,
    ssh_key.c.fingerprint,
    ssh_key.c.is_default.label("default"),
    ssh_key.c.key_id,
    ssh_key.c.created_at,
)

_REFERENCES = bindparam("references", type_=ARRAY(Text))
_NAMED = or_(ssh_key.c.id == any_(_REFERENCES), ssh_key.c.name == any_(_REFERENCES))
_DEFAULT = and_(
    bindparam("defaults", type_=Boolean), ssh_key.c.is_default, ssh_key.c.key_id == bindparam("key_id", type_=Text)
)

FOR_LEASE = Compiled(
    select(ssh_key.c.id, ssh_key.c.name, ssh_key.c.public_key)
    .where(ssh_key.c.tenant_id == bindparam("tenant_id"), or_(_NAMED, _DEFAULT))
    .order_by(ssh_key.c.id)
)
"""Keys of the tenant `tenant_id`: those with an id or name in `references`; with `defaults`, the default keys of `key_id`."""


def count(tenant_id: str) -> AnySelect:
    """The number of keys of a tenant. Lock the tenant first."""
    return select(func.count()).select_from(ssh_key).where(ssh_key.c.tenant_id == tenant_id)


def add(values: dict[str, Any]) -> AnyInsert:
    """Inserts a key and returns its public columns. Returns no row when the name is taken."""
    taken = [ssh_key.c.tenant_id, ssh_key.c.name]
    return insert(ssh_key).values(values).on_conflict_do_nothing(index_elements=taken).returning(*_PUBLIC)


def get(ssh_key_id: str, *, within: str | None, lock: bool = False) -> AnySelect:
    """Public columns of a key, if it belongs to the tenant `within`. `lock`: lock its row until the transaction ends."""
    query = select(*_PUBLIC).where(ssh_key.c.id == ssh_key_id, owned(ssh_key.c.tenant_id, within))
    return query.with_for_update() if lock else query


def page(*, tenant_id: str | None, key_id: str | None, after: str | None, limit: int) -> AnySelect:
    """Public columns of keys, the newest first. `tenant_id` None: of every tenant. `key_id` None: of every owner."""
    query = select(*_PUBLIC).where(owned(ssh_key.c.tenant_id, tenant_id))
    if key_id is not None:
        query = query.where(ssh_key.c.key_id == key_id)
    if after is not None:
        query = query.where(ssh_key.c.id < after)
    return query.order_by(ssh_key.c.id.desc()).limit(limit)


def name_holder(tenant_id: str, name: str) -> AnySelect:
    """The id of the tenant's key with this name."""
    return select(ssh_key.c.id).where(ssh_key.c.tenant_id == tenant_id, ssh_key.c.name == name)


def change(ssh_key_id: str, values: dict[str, Any], *, within: str | None) -> Update:
    """Writes `values`, which are `name` and `is_default`."""
    return update(ssh_key).where(ssh_key.c.id == ssh_key_id, owned(ssh_key.c.tenant_id, within)).values(values)


def remove(ssh_key_id: str, *, within: str | None) -> Delete:
    """Deletes a key. Leases that were created with it keep it."""
    return delete(ssh_key).where(ssh_key.c.id == ssh_key_id, owned(ssh_key.c.tenant_id, within))
