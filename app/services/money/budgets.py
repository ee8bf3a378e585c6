"""Budgets: set by operators, and by the admins of a tenant below what operators set. Read by their tenant."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.tenancy import budgets as statements
from app.db.tenancy import commitments
from app.domain.budgets import (
    MOST,
    MOST_OF_KEY,
    MOST_SHARED,
    BudgetKind,
    Period,
    Scope,
    SetBy,
    WhenExceeded,
    highest_after_change,
    limit_of,
    resource_of,
    span_at,
)
from app.domain.ids import TenantId, is_typeid
from app.domain.money import format_money
from app.services.acting_tenant import unknown_tenant, whose
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, FieldError, Forbidden, InvalidRequest, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.money.cost_owners import check_limits_of_keys
from app.services.ops import audit
from app.services.preconditions import IfMatch
from app.services.principal import Principal
from app.services.suspension import lock_own
from app.services.totals import total_count

_KIND = "budgets"
_AUDITED = ("kind", "key_id", "label_key", "label_value", "period", "amount", "thresholds", "when_exceeded", "set_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBudget:
    """A budget to create. `tenant_id`: named by operators alone. `thresholds`: percent, ascending."""

    tenant_id: str | None
    scope: Scope
    period: Period
    amount: Decimal
    thresholds: tuple[int, ...]
    when_exceeded: WhenExceeded


class BudgetService:
    """Everything happens within the principal's tenant; an operator may name any. Rows: see `statements.page`."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def create(self, principal: Principal, new: NewBudget, key: IdempotencyKey | None) -> Creation:
        """The budget counts what its period has cost so far. Raises InvalidRequest, Conflict."""
        tenant_id = whose(principal, new.tenant_id, pointer="#/body/scope/tenant_id")
        async with self._database.transaction(principal.tenant_id) as connection:
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            row = await add_budget(connection, principal, tenant_id, new)
            await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(row)))
        return Creation(row, replayed=False)

    async def page(self, principal: Principal, tenant_id: str | None, page: PageRequest) -> RowPage:
        """Newest first, of the principal's tenant or of those that an operator names (None: all)."""
        statement = partial(statements.page, tenant_id=principal.tenant_id or tenant_id)
        after = last_id(page, _KIND, "budget")
        rows = await self._database.rows(principal.tenant_id, statement(after=after, limit=page.limit + 1))
        first = partial(statement, after=None, limit=1)
        return cut(rows, page, _KIND, await total_count(self._database, principal.tenant_id, page, first))

    async def get(self, principal: Principal, budget_id: str) -> dict[str, Any]:
        """Raises ResourceNotFound."""
        _check_id(budget_id)
        rows = await self._database.rows(principal.tenant_id, statements.get(budget_id, within=principal.tenant_id))
        if not rows:
            raise ResourceNotFound
        return dict(rows[0])

    async def change(
        self, principal: Principal, budget_id: str, values: Mapping[str, Any], if_match: IfMatch
    ) -> dict[str, Any]:
        """`values`: any of amount, thresholds, when_exceeded. An amount below what is held is accepted.

        Raises ResourceNotFound, VersionConflict, TenantSuspended, Forbidden, KeyHasBudget, InvalidRequest.
        """
        async with self._database.transaction(principal.tenant_id) as connection:
            await lock_own(connection, principal)
            before = await _locked(connection, principal, budget_id)
            if_match.check(budget_id, before["version"])
            await _check_owner(connection, principal, before)
            if any(before[name] != value for name, value in values.items()):
                await self._write(connection, principal, before, values)
            return await _read(connection, principal, budget_id)

    async def _write(
        self, connection: AsyncConnection, principal: Principal, before: RowMapping, values: Mapping[str, Any]
    ) -> None:
        after = {**before, **values}
        if after["amount"] > before["amount"]:
            await _check_ceiling(connection, principal, before["tenant_id"], after["amount"], "#/body/amount")
        spent = (await _read(connection, principal, before["id"]))["spent"]
        highest = highest_after_change(after["thresholds"], before["threshold_told"], spent, after["amount"])
        await connection.execute(statements.change(before["id"], {**values, "threshold_told": highest}))
        limit = limit_of(after["amount"], WhenExceeded(after["when_exceeded"]))
        await connection.execute(statements.set_limit(before["tenant_id"], before["id"], limit))
        was, now = _audited(before), _audited(after)
        await _record(connection, principal, "budget.change", before, before=was, after=now)

    async def remove(self, principal: Principal, budget_id: str) -> None:
        """Its leases hold nothing of it any more. Raises ResourceNotFound, TenantSuspended, Forbidden, KeyHasBudget."""
        _check_id(budget_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            await lock_own(connection, principal)
            tenant_id = (await _read(connection, principal, budget_id))["tenant_id"]
            await connection.run_sync(commitments.lock_tenant, tenant_id)
            before = await _locked(connection, principal, budget_id)
            await _check_owner(connection, principal, before)
            await connection.execute(statements.remove(budget_id))
            await connection.run_sync(commitments.begin_period, tenant_id, [resource_of(budget_id)])
            await connection.execute(statements.remove_counter(tenant_id, budget_id))
            await _record(connection, principal, "budget.delete", before, before=_audited(before))


async def add_budget(
    connection: AsyncConnection, principal: Principal, tenant_id: TenantId, new: NewBudget, *, field: str = "amount"
) -> dict[str, Any]:
    """Creates the budget in the caller's transaction. `field`: of the body, where the amount stands.

    Raises InvalidRequest, Conflict.
    """
    if not await connection.run_sync(commitments.lock_tenant, tenant_id):
        raise unknown_tenant(pointer="#/body/scope/tenant_id")
    await _check_scope(connection, tenant_id, new.scope)
    await _check_count(connection, tenant_id, new.scope)
    await _check_ceiling(connection, principal, tenant_id, new.amount, f"#/body/{field}")
    budget_id = new_id("budget")
    span = span_at(new.period, (await connection.execute(select(func.now()))).scalar_one())
    label_key, label_value = new.scope.label or (None, None)
    values = {
        "id": budget_id,
        "tenant_id": tenant_id,
        "kind": str(new.scope.kind),
        "key_id": new.scope.key_id,
        "label_key": label_key,
        "label_value": label_value,
        "period": str(new.period),
        "period_started_at": span.starts_at,
        "period_ends_at": span.ends_at,
        "amount": new.amount,
        "thresholds": list(new.thresholds),
        "when_exceeded": str(new.when_exceeded),
        "set_by": str(SetBy.OPERATOR if principal.is_operator else SetBy.ADMIN),
    }
    await connection.execute(statements.add(values))
    await connection.execute(statements.add_counter(tenant_id, budget_id, limit_of(new.amount, new.when_exceeded)))
    await connection.run_sync(commitments.begin_period, tenant_id, [resource_of(budget_id)])
    row = await _read(connection, principal, budget_id)
    await _record(connection, principal, "budget.create", row, after=_audited(row))
    return row


async def _check_scope(connection: AsyncConnection, tenant_id: str, scope: Scope) -> None:
    if scope.kind is BudgetKind.KEY:
        known = (
            is_typeid("key", str(scope.key_id))
            and (await connection.execute(statements.key_exists(tenant_id, str(scope.key_id)))).first()
        )
        if not known:
            raise InvalidRequest(errors=[FieldError("#/body/scope/key_id", "is not the id of a key of the tenant")])


async def _check_count(connection: AsyncConnection, tenant_id: str, scope: Scope) -> None:
    """The caller has locked the tenant. Raises Conflict."""
    present = (await connection.execute(statements.count(tenant_id, scope.key_id))).one()
    if present.budgets >= MOST:
        raise Conflict(f"A tenant has at most {MOST} budgets: delete one.")
    if scope.kind is BudgetKind.KEY and present.of_key >= MOST_OF_KEY:
        raise Conflict(f"An API key has at most {MOST_OF_KEY} budgets: delete one.")
    if scope.kind is not BudgetKind.KEY and present.shared >= MOST_SHARED:
        raise Conflict(f"A tenant has at most {MOST_SHARED} budgets of the kinds tenant and label: delete one.")


async def _check_ceiling(
    connection: AsyncConnection, principal: Principal, tenant_id: str, amount: Decimal, pointer: str
) -> None:
    """Admins set no budget above the lowest one that operators set for the whole tenant."""
    if principal.is_operator:
        return
    ceiling = (await connection.execute(statements.ceiling(tenant_id))).scalar_one()
    if ceiling is not None and amount > ceiling:
        detail = f"must be at most {format_money(ceiling)}, the budget that the operators set for the tenant"
        raise InvalidRequest(errors=[FieldError(pointer, detail)])


async def _check_owner(connection: AsyncConnection, principal: Principal, row: RowMapping) -> None:
    await check_limits_of_keys(connection, principal)
    if row["set_by"] == SetBy.OPERATOR and not principal.is_operator:
        raise Forbidden("The operators set this budget: only they change or delete it.")


async def _locked(connection: AsyncConnection, principal: Principal, budget_id: str) -> RowMapping:
    _check_id(budget_id)
    result = await connection.execute(statements.lock(budget_id, within=principal.tenant_id))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return row


async def _read(connection: AsyncConnection, principal: Principal, budget_id: str) -> dict[str, Any]:
    result = await connection.execute(statements.get(budget_id, within=principal.tenant_id))
    row = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return dict(row)


async def _record(
    connection: AsyncConnection,
    principal: Principal,
    action: str,
    row: Mapping[Any, Any],
    **what: Mapping[str, Any],
) -> None:
    await audit.record(connection, principal, action, target=row["id"], tenant_id=row["tenant_id"], **what)


def _audited(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _AUDITED}


def _check_id(text: str) -> None:
    if not is_typeid("budget", text):
        raise ResourceNotFound
