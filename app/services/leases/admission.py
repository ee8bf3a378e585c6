"""Reserving quota and budgets for new leases, all or nothing, and the refusal where they have no room."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.compiled import Compiled
from app.db.core.engine import fetch
from app.db.leases import statements
from app.db.tenancy import budgets as budget_statements
from app.db.tenancy import commitments, quota_limits
from app.db.tenancy import quotas as quota_statements
from app.domain.ids import LeaseId, TenantId
from app.domain.quotas import Amounts, Shortage, shortages
from app.services.acting_tenant import unknown_tenant
from app.services.context import ServiceContext
from app.services.errors import FieldError, TenantSuspended, TermExceeded
from app.services.idempotency import IdempotencyKey, replay
from app.services.leases.refusals import quota_exceeded
from app.services.money.budget_refusals import budget_refusal
from app.services.principal import Principal
from app.services.request_checks import CheckedRequest

CHANGED_MEANWHILE = "The quota or the budgets of the tenant changed during each try. Nothing is stored: send it again."
"""Why a request is given up that was tried a few times, and that nothing refuses."""


class NoRoom(Exception):
    """Quota or a budget could not be reserved in full. The transaction rolls back, and the caller finds the reason."""


class BudgetsChanged(Exception):
    """A budget was created or deleted meanwhile: the transaction rolls back. `due`: or the period of one has ended."""

    def __init__(self, *, due: bool) -> None:
        super().__init__()
        self.due = due


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What equal new leases need: `minimum` of quota for each, `budgets` as `budget_parameters` makes it."""

    tenant_id: TenantId
    minimum: Amounts
    budgets: Mapping[str, Any]
    members: int = 1

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of `budgets.asked_by_new`, and of `quotas.ADMIT` besides those of quota."""
        return {**self.budgets, "members": self.members}

    @property
    def total(self) -> Amounts:
        """The quota for all of them."""
        return {resource: amount * self.members for resource, amount in self.minimum.items()}


def needs_of(principal: Principal, tenant_id: TenantId, checked: CheckedRequest, *, members: int = 1) -> Needs:
    """What leases of a checked request need."""
    request = checked.new.request
    budgets = budget_parameters(
        tenant_id,
        rate=checked.ranked.least_rate,
        max_cost=checked.new.max_cost,
        ttl=timedelta(seconds=request.ttl_seconds),
        key_id=principal.key_id,
        labels=request.labels,
    )
    return Needs(tenant_id=tenant_id, minimum=checked.ranked.minimum, budgets=budgets, members=members)


def budget_parameters(
    tenant_id: TenantId,
    *,
    rate: Decimal,
    max_cost: Decimal | None,
    ttl: timedelta,
    key_id: str | None,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """What decides how much a new lease holds of which budgets: parameters of `quotas.ADMIT`."""
    about = {"rate": rate, "max_cost": max_cost, "ttl": ttl, "key_id": key_id}
    return {"tenant_id": tenant_id, **about, "labels": dict(labels)}


async def reserve(connection: AsyncConnection, needs: Needs) -> Amounts:
    """Reserves quota and budgets for all. Returns what each lease claims. Raises NoRoom and BudgetsChanged."""
    room = await _room(connection, quota_statements.ADMIT, needs, {})
    return {**needs.minimum, **dict(zip(room["budgets"], room["budget_amounts"], strict=True))}


async def admit_lease(connection: AsyncConnection, needs: Needs, lease_id: LeaseId) -> None:
    """Reserves quota and budgets for one lease that the transaction has inserted, and notes what it claims.

    Last statement of the transaction. Raises NoRoom and BudgetsChanged.
    """
    await _room(connection, quota_statements.ADMIT_LEASE, needs, {"lease_id": lease_id})


async def _room(
    connection: AsyncConnection, statement: Compiled, needs: Needs, more: Mapping[str, Any]
) -> Mapping[str, Any]:
    labels = orjson.dumps(needs.budgets["labels"]).decode()
    requested = {"resources": list(needs.minimum), "amounts": list(needs.minimum.values())}
    [room] = await fetch(connection, statement, {**requested, **needs.parameters, "labels": labels, **more})
    if room["outdated"] or room["due"]:
        raise BudgetsChanged(due=room["due"])
    if not room["fits"]:
        raise NoRoom
    return room


class Admission:
    """What follows a try of `reserve` that failed."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    async def roll_budgets(self, principal: Principal, tenant_id: TenantId, *, due: bool) -> None:
        """Moves budgets whose period has ended into the present one, where `due`."""
        if not due:
            return
        async with self._context.database.transaction(principal.tenant_id) as connection:
            await connection.run_sync(commitments.roll, tenant_id)

    async def begin_periods(self, principal: Principal, owner_id: str) -> None:
        """Before a change that may hold more of budgets: those of the tenant whose period has ended begin anew.

        `owner_id`: of the lease or group that is changed.
        """
        async with self._context.database.transaction(principal.tenant_id, read_only=True) as connection:
            tenant_id = (await connection.execute(*commitments.due_of(owner_id))).scalar()
        if tenant_id is not None:
            await self.roll_budgets(principal, tenant_id, due=True)

    async def make_room_or_refuse(
        self, principal: Principal, needs: Needs, ttl_seconds: int | None, key: IdempotencyKey | None
    ) -> None:
        """Returns when another try may succeed: a quota row was missing, or another lease or a twin has changed the use.

        `ttl_seconds`: of new leases. None: of leases that join others. Raises what `check_terms` raises, QuotaExceeded
        and BudgetExceeded.
        """
        async with self._context.database.transaction(principal.tenant_id) as connection:
            if await replay(connection, key) is not None:
                return
            if ttl_seconds is not None:
                await check_terms(connection, needs.tenant_id, ttl_seconds)
            short = await find_shortages(connection, needs.tenant_id, needs.total)
            if short:
                raise quota_exceeded(short, members=needs.members)
            budget_claims = budget_statements.asked_by_new(needs.parameters)
            refusal = await budget_refusal(connection, needs.tenant_id, budget_claims, within=principal.tenant_id)
            if refusal is not None:
                raise refusal
            await connection.execute(*quota_statements.ensure_rows(needs.tenant_id, needs.minimum))


async def check_terms(connection: AsyncConnection, tenant_id: TenantId, ttl_seconds: int) -> None:
    """Raises TenantSuspended, TermExceeded or InvalidRequest when the tenant may not start this."""
    row = (await connection.execute(statements.TERMS, {"tenant_id": tenant_id})).one_or_none()
    if row is None:
        raise unknown_tenant()
    if row.status != "active":
        raise TenantSuspended
    if ttl_seconds > row.max_ttl_seconds:
        detail = f"must be at most {row.max_ttl_seconds} for this tenant"
        raise TermExceeded(
            errors=[FieldError("#/body/ttl_seconds", detail)], extra={"max_ttl_seconds": row.max_ttl_seconds}
        )


async def find_shortages(connection: AsyncConnection, tenant_id: TenantId, asked: Amounts) -> list[Shortage]:
    """The requested resources that exceed the quota now."""
    rows = (await connection.execute(quota_limits.of_tenant(tenant_id))).all()
    limits: Mapping[str, Decimal | None] = {row.resource: row.limit for row in rows}
    return shortages(limits, {row.resource: row.used for row in rows}, asked)
