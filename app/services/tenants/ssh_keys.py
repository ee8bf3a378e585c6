"""Stored SSH keys. Members manage the keys that their API key stored; admins manage all keys of the tenant."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.tenancy import ssh_keys as statements
from app.domain.ids import is_typeid
from app.domain.ssh_keys import MOST_STORED, fingerprint
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, Forbidden, NameTaken, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.ops import audit
from app.services.principal import Principal, Role
from app.services.suspension import lock_active, lock_own
from app.services.totals import total_count

_KIND = "ssh_keys"
_AUDITED = ("name", "fingerprint", "default", "key_id")
_COLUMNS = {"name": "name", "default": "is_default"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSshKey:
    """`public_key` is a checked line. `default`: leases of its owner get it if they name no key."""

    name: str
    public_key: str
    default: bool
    tenant_id: str | None


class SshKeyService:
    """Everything happens within the principal's tenant; an operator may name any."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def create(self, principal: Principal, new: NewSshKey, key: IdempotencyKey | None) -> Creation:
        """The row. Raises ResourceNotFound, TenantSuspended, InvalidRequest, NameTaken, Conflict."""
        tenant_id = whose(principal, new.tenant_id)
        values = {
            "id": new_id("sshkey"),
            "tenant_id": tenant_id,
            "name": new.name,
            "public_key": new.public_key,
            "fingerprint": fingerprint(new.public_key),
            "is_default": new.default,
            "key_id": principal.key_id,
        }
        async with self._database.transaction(principal.tenant_id) as connection:
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await _check_count(connection, principal, tenant_id)
            row = (await connection.execute(statements.add(values))).mappings().first()
            if row is None:
                stored = await replay(connection, key)  # the name may be a twin's
                if stored is not None:
                    return Creation(stored.response, replayed=True)
                raise _name_taken(new.name)
            await _record(connection, principal, "ssh_key.create", row, after=_audited(row))
            await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(dict(row))))
        return Creation(dict(row), replayed=False)

    async def page(self, principal: Principal, tenant_id: str | None, page: PageRequest, *, mine: bool) -> RowPage:
        """Newest first, of the principal's tenant or of the one that an operator names (None: all).

        `mine`: only keys that the principal owns.
        """
        listed = partial(
            statements.page,
            tenant_id=principal.tenant_id or tenant_id,
            key_id=principal.key_id if mine else None,
        )
        statement = listed(after=last_id(page, _KIND, "sshkey"), limit=page.limit + 1)
        rows = await self._database.rows(principal.tenant_id, statement)
        first = partial(listed, after=None, limit=1)
        return cut(rows, page, _KIND, await total_count(self._database, principal.tenant_id, page, first))

    async def get(self, principal: Principal, ssh_key_id: str) -> dict[str, Any]:
        """Raises ResourceNotFound."""
        _check_id(ssh_key_id)
        rows = await self._database.rows(principal.tenant_id, statements.get(ssh_key_id, within=principal.tenant_id))
        if not rows:
            raise ResourceNotFound
        return dict(rows[0])

    async def change(self, principal: Principal, ssh_key_id: str, values: dict[str, Any]) -> dict[str, Any]:
        """`values`: name, default or both. Raises ResourceNotFound, TenantSuspended, Forbidden, NameTaken."""
        _check_id(ssh_key_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            await lock_own(connection, principal)
            before = await _locked(connection, principal, ssh_key_id)
            if all(before[name] == value for name, value in values.items()):
                return dict(before)
            if values.get("name", before["name"]) != before["name"]:
                await _check_name(connection, principal, before["tenant_id"], values["name"])
            columns = {_COLUMNS[name]: value for name, value in values.items()}
            await connection.execute(statements.change(ssh_key_id, columns, within=principal.tenant_id))
            after = await _locked(connection, principal, ssh_key_id)
            await _record(
                connection, principal, "ssh_key.change", after, before=_audited(before), after=_audited(after)
            )
        return dict(after)

    async def remove(self, principal: Principal, ssh_key_id: str) -> None:
        """VMs that have the key keep it. Raises ResourceNotFound, Forbidden."""
        _check_id(ssh_key_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            before = await _locked(connection, principal, ssh_key_id)
            await connection.execute(statements.remove(ssh_key_id, within=principal.tenant_id))
            await _record(connection, principal, "ssh_key.delete", before, before=_audited(before))


async def _check_count(connection: AsyncConnection, principal: Principal, tenant_id: str) -> None:
    """Changes of one tenant's set of keys happen one after the other."""
    await lock_active(connection, principal, tenant_id)
    if (await connection.execute(statements.count(tenant_id))).scalar_one() >= MOST_STORED:
        raise Conflict(f"A tenant has at most {MOST_STORED} SSH keys: delete one.")


async def _check_name(connection: AsyncConnection, principal: Principal, tenant_id: str, name: str) -> None:
    await lock_active(connection, principal, tenant_id)
    if (await connection.execute(statements.name_holder(tenant_id, name))).first() is not None:
        raise _name_taken(name)


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The tenant has an SSH key named {name}: choose another name, or delete that key.")


async def _locked(connection: AsyncConnection, principal: Principal, ssh_key_id: str) -> RowMapping:
    """The key, if the principal may change it. Raises ResourceNotFound, Forbidden."""
    result = await connection.execute(statements.get(ssh_key_id, within=principal.tenant_id, lock=True))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    if principal.role is Role.MEMBER and row["key_id"] != principal.key_id:
        raise Forbidden("Another API key stored this SSH key: only that API key or an admin may change it.")
    return row


async def _record(
    connection: AsyncConnection, principal: Principal, action: str, row: RowMapping, **what: dict[str, Any]
) -> None:
    await audit.record(connection, principal, action, target=row["id"], tenant_id=row["tenant_id"], **what)


def _audited(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in _AUDITED}


def _check_id(text: str) -> None:
    if not is_typeid("sshkey", text):
        raise ResourceNotFound
