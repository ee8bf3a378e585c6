"""API keys: made, listed, rotated and revoked by operators and by the admins of a tenant."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.tenancy import keys as statements
from app.db.tenancy import tenants as tenant_statements
from app.domain.budgets import DEFAULT_THRESHOLDS, BudgetKind, Period, Scope, WhenExceeded
from app.domain.event_parts import rfc3339
from app.domain.ids import KeyId, TenantId, is_typeid
from app.services import key_format
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, FieldError, Forbidden, InvalidRequest, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.money.budgets import NewBudget, add_budget
from app.services.money.cost_owners import check_limits_of_keys
from app.services.ops import audit
from app.services.principal import Principal, Role
from app.services.suspension import lock_active
from app.services.totals import total_count

MOST = 1000
"""API keys of a tenant that are neither revoked nor expired."""
_KIND = "keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """`role` is any but operator. `expires_at` None: with the caller's key. `budget`: USD for all leases of the key; None: any."""

    name: str
    role: Role
    expires_at: datetime | None
    budget: Decimal | None = None


class KeyService:
    """Everything happens within the principal's tenant; an operator may name any."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def create(self, principal: Principal, tenant_id: str, new: NewKey, key: IdempotencyKey | None) -> Creation:
        """The row and its `secret`, which is None in a repeated answer.

        Raises ResourceNotFound, TenantSuspended, InvalidRequest, KeyHasBudget, Conflict.
        """
        _check_id("tenant", tenant_id)
        text = key_format.generate(KeyId(new_id("key")))
        values: dict[str, Any] = {
            "id": text.key_id,
            "tenant_id": tenant_id,
            "role": str(new.role),
            "name": new.name,
            "secret_hash": text.secret_hash,
        }
        async with self._database.transaction(principal.tenant_id) as connection:
            await _check_tenant(connection, principal, tenant_id)
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await check_limits_of_keys(connection, principal)
            await _check_room(connection, principal, tenant_id)
            values["expires_at"] = await _expiry(connection, principal, new.expires_at)
            row: Any = (await connection.execute(statements.add(values))).mappings().one()
            if new.budget is not None:
                budget = _lifetime_budget(tenant_id, text.key_id, new.budget)
                await add_budget(connection, principal, TenantId(tenant_id), budget, field="budget")
            await _finish(connection, principal, "key.create", row, key)
        return Creation({**row, "secret": text.text}, replayed=False)

    async def page(self, principal: Principal, tenant_id: str, page: PageRequest) -> RowPage:
        """Newest first, revoked ones included. Raises ResourceNotFound."""
        _check_id("tenant", tenant_id)
        statement = statements.page(tenant_id, after=last_id(page, _KIND, "key"), limit=page.limit + 1)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            await _check_tenant(connection, principal, tenant_id)
            rows = (await connection.execute(statement)).mappings().all()
        first = partial(statements.page, tenant_id, after=None, limit=1)
        return cut(rows, page, _KIND, await total_count(self._database, principal.tenant_id, page, first))

    async def revoke(self, principal: Principal, key_id: str) -> dict[str, Any]:
        """Repeating it changes nothing. Raises ResourceNotFound."""
        _check_id("key", key_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            before = await _locked(connection, principal, key_id)
            if before["revoked_at"] is not None:
                return dict(before)
            row = (await connection.execute(statements.revoke(key_id, within=principal.tenant_id))).mappings().one()
            await _record(connection, principal, "key.revoke", row)
        return dict(row)

    async def rotate(
        self, principal: Principal, key_id: str, overlap_seconds: int, key: IdempotencyKey | None
    ) -> Creation:
        """A new secret. Raises ResourceNotFound, KeyHasBudget, Forbidden, Conflict for a key that is revoked or expired."""
        _check_id("key", key_id)
        text = key_format.generate(KeyId(key_id))
        async with self._database.transaction(principal.tenant_id) as connection:
            before = await _locked(connection, principal, key_id)
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await check_limits_of_keys(connection, principal, key_id)
            await _check_outlives(connection, principal, before)
            statement = statements.rotate(key_id, text.secret_hash, overlap_seconds, within=principal.tenant_id)
            row: Any = (await connection.execute(statement)).mappings().first()
            if row is None:
                raise Conflict("The key is revoked or expired: create another one.")
            await _finish(connection, principal, "key.rotate", row, key)
        return Creation({**row, "secret": text.text}, replayed=False)


def _lifetime_budget(tenant_id: str, key_id: str, amount: Decimal) -> NewBudget:
    return NewBudget(
        tenant_id=tenant_id,
        scope=Scope(kind=BudgetKind.KEY, key_id=key_id),
        period=Period.LIFETIME,
        amount=amount,
        thresholds=DEFAULT_THRESHOLDS,
        when_exceeded=WhenExceeded.END,
    )


async def _check_tenant(connection: AsyncConnection, principal: Principal, tenant_id: str) -> None:
    result = await connection.execute(tenant_statements.get(tenant_id, within=principal.tenant_id))
    if result.first() is None:
        raise ResourceNotFound


async def _check_room(connection: AsyncConnection, principal: Principal, tenant_id: str) -> None:
    """The tenant's row is locked, so that two who ask at once do not both get the last place. Raises Conflict."""
    await lock_active(connection, principal, tenant_id)
    if (await connection.execute(statements.count(tenant_id))).scalar_one() >= MOST:
        raise Conflict(f"A tenant has at most {MOST} API keys that are neither revoked nor expired: revoke one.")


async def _expiry(connection: AsyncConnection, principal: Principal, requested: datetime | None) -> datetime | None:
    """When a new key expires: as wanted, and no later than the caller's key. Raises InvalidRequest."""
    latest = await _expiry_of_caller(connection, principal)
    if requested is None:
        return latest
    now = (await connection.execute(select(func.now()))).scalar_one()
    if requested <= now:
        raise InvalidRequest(errors=[FieldError("#/body/expires_at", "must be in the future")])
    if latest is not None and requested > latest:
        detail = f"must be at most {rfc3339(latest)}, when the key of this request expires"
        raise InvalidRequest(errors=[FieldError("#/body/expires_at", detail)])
    return requested


async def _check_outlives(connection: AsyncConnection, principal: Principal, row: RowMapping) -> None:
    """A key gets no secret of a key that works longer than itself. Raises Forbidden."""
    latest = await _expiry_of_caller(connection, principal)
    if latest is not None and (row["expires_at"] is None or row["expires_at"] > latest):
        raise Forbidden(f"The key {principal.key_id} expires before the key {row['id']}, and may not rotate it.")


async def _expiry_of_caller(connection: AsyncConnection, principal: Principal) -> datetime | None:
    result = await connection.execute(statements.get(principal.key_id, within=principal.tenant_id))
    row = result.mappings().first()
    return None if row is None else row["expires_at"]


async def _locked(connection: AsyncConnection, principal: Principal, key_id: str) -> RowMapping:
    result = await connection.execute(statements.get(key_id, within=principal.tenant_id, lock=True))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return row


async def _finish(
    connection: AsyncConnection, principal: Principal, action: str, row: RowMapping, key: IdempotencyKey | None
) -> None:
    await _record(connection, principal, action, row)
    response = to_jsonable_python({**row, "secret": None})
    await store(connection, key, StoredAnswer(status=201, response=response))


async def _record(connection: AsyncConnection, principal: Principal, action: str, row: RowMapping) -> None:
    after = {name: row[name] for name in ("name", "role", "expires_at", "revoked_at", "previous_valid_until")}
    await audit.record(connection, principal, action, target=row["id"], tenant_id=row["tenant_id"], after=after)


def _check_id(kind: str, text: str) -> None:
    if not is_typeid(kind, text):
        raise ResourceNotFound
