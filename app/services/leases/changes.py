"""Changing a lease: name and labels, extending, releasing."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.tenant_scope import parameter
from app.db.events.events import NewEvent
from app.db.leases import notices, statements, transitions
from app.db.leases.spend_caps import CAP_CHANGES
from app.db.tenancy import budgets, commitments, quotas
from app.domain.event_parts import rfc3339
from app.domain.events import LeaseExtended, LeaseUpdated
from app.domain.ids import LeaseId
from app.domain.lease_actions import Extension, LaterExpiry, Refusal, extension_refusal, prolonging_refusal
from app.domain.leases import TERMINAL, Desired, LeaseState
from app.domain.money import format_money
from app.domain.reasons import Origin, Reason, ReasonCode
from app.services.context import ServiceContext
from app.services.errors import (
    BudgetExceeded,
    FieldError,
    InvalidRequest,
    LeaseEnding,
    NameTaken,
    NotExtendable,
    NotLater,
    ResourceNotFound,
    TenantSuspended,
    TermExceeded,
)
from app.services.idempotency import IdempotencyKey, Reply, repeatable
from app.services.leases.admission import Admission
from app.services.leases.creation import check_name
from app.services.leases.leases import lease_key
from app.services.money.budget_refusals import budget_refusal
from app.services.money.cost_owners import check_cost_owner
from app.services.ops.audit import record_lease
from app.services.preconditions import IfMatch
from app.services.principal import Principal

_TRIES = 3
_COMMITTED = frozenset({"labels", "max_cost"})
"""Fields that decide which budgets count the lease, and how much."""


class LeaseChanges:
    """Each call returns the lease after the change."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._admission = Admission(context)

    async def update(self, principal: Principal, lease_id: str, changes: dict[str, Any], if_match: IfMatch) -> Any:
        """`changes`: any of name, labels, `max_cost`, expiry_warnings; a row of leases.READ. Name and labels change in every state.

        Raises ResourceNotFound, VersionConflict, NameTaken, and BudgetExceeded when a budget that then counts the lease
        has no room; for `max_cost` also what `_check_cap` raises, and KeyHasBudget.
        """
        if _COMMITTED & changes.keys():
            await self._admission.begin_periods(principal, lease_key(lease_id))
        for _ in range(_TRIES):
            try:
                row = await self._update(principal, lease_id, changes, if_match)
            except IntegrityError as error:  # another request took the name at the same time: the next try names it
                if "ix_lease_live_name" not in str(error.orig):
                    raise
            else:
                if "max_cost" in changes:
                    self._context.hints.wake(LeaseId(lease_id))
                return row
        raise NameTaken

    async def _update(self, principal: Principal, lease_id: str, changes: dict[str, Any], if_match: IfMatch) -> Any:
        async with self._context.database.transaction(principal.tenant_id) as connection:
            if _COMMITTED & changes.keys():
                shared = commitments.share_tenant(lease_key(lease_id), within=principal.tenant_id)
                await connection.execute(*shared)
            row = await _locked(connection, principal, lease_id, if_match)
            changed = {name: value for name, value in changes.items() if getattr(row, name) != value}
            if "name" in changed and LeaseState(row.state) not in TERMINAL:
                await check_name(connection, row.tenant_id, changed["name"], besides=row.id)
            if "max_cost" in changed:
                if _raises_cap(row, changed["max_cost"]):
                    await check_cost_owner(connection, principal, row.key_id)
                _check_cap(row, changed["max_cost"])
            if changed:
                event = NewEvent(_updated(changed), principal.request_id)
                before = _audited({name: getattr(row, name) for name in changed})
                await record_lease(connection, principal, "lease.update", row, before=before, after=_audited(changed))
                bindings = {"cap": changed["max_cost"]} if "max_cost" in changed else {}
                row = await _written(connection, principal, row.id, event, _columns(changed), bindings)
                if _COMMITTED & changed.keys():
                    await recommit(connection, principal, row.tenant_id, [row.id])
        return row

    @asynccontextmanager
    async def extend(
        self, principal: Principal, lease_id: str, later: LaterExpiry, *, if_match: IfMatch, key: IdempotencyKey | None
    ) -> AsyncIterator[Reply]:
        """Moves the lease's expiry to a later time.

        Raises ResourceNotFound, VersionConflict, LeaseEnding, NotLater, NotExtendable, TermExceeded, TenantSuspended,
        BudgetExceeded, KeyHasBudget and what `repeatable` raises.
        """
        await self._admission.begin_periods(principal, lease_key(lease_id))
        async with (
            self._context.database.transaction(principal.tenant_id) as connection,
            repeatable(connection, key, 200) as reply,
        ):
            if not reply.replayed:
                reply.row = await _extend(connection, principal, lease_id, later, if_match)
            yield reply
        if not reply.replayed:
            self._context.hints.wake(LeaseId(lease_id))

    async def release(self, principal: Principal, lease_id: str, if_match: IfMatch) -> Any:
        """A row of leases.READ, `releasing`; a lease that ends or has ended is answered as it is. Once, with an audit row.

        Raises ResourceNotFound, VersionConflict.
        """
        async with self._context.database.transaction(principal.tenant_id) as connection:
            row = await _locked(connection, principal, lease_id, if_match)
            has_changed = await end_lease(connection, principal, row)
            if has_changed:
                row = await _read(connection, principal, row.id)
        if has_changed:
            self._context.hints.wake(LeaseId(lease_id))
        return row


async def end_lease(connection: AsyncConnection, principal: Principal, row: Any) -> bool:
    """Requests the end of a locked lease, with its audit row. False: it ends or has ended already."""
    reason = released_by(principal)
    statement = transitions.request_end(row.id, reason, principal.request_id, within=principal.tenant_id)
    if (await connection.execute(*statement)).first() is None:
        return False
    after = {"state": str(LeaseState.RELEASING), "reason": reason.as_json()}
    await record_lease(connection, principal, "lease.release", row, before={"state": row.state}, after=after)
    return True


def _columns(changed: dict[str, Any]) -> dict[str, Any]:
    columns = {**changed, "unique_name": True} if "name" in changed else dict(changed)
    return {**columns, **CAP_CHANGES} if "max_cost" in changed else columns


def _audited(values: dict[str, Any]) -> dict[str, Any]:
    return {name: format_money(value) if isinstance(value, Decimal) else value for name, value in values.items()}


def _check_cap(row: Any, cap: Decimal | None) -> None:
    """Raises LeaseEnding, TenantSuspended, InvalidRequest or NotExtendable unless the spend cap can become `cap`."""
    check_prolonging(row, longer=_raises_cap(row, cap))
    if cap is not None and cap < row.accrued:
        detail = f"must be at least {format_money(row.accrued)}, which the lease has cost already"
        raise InvalidRequest(errors=[FieldError("#/body/max_cost", detail)])
    if row.not_extendable and _raises_cap(row, cap):
        raise NotExtendable(
            f"The cloud deletes this VM before it costs more than {format_money(row.max_cost)} USD, and nobody can move "
            f"that time while the VM runs: the account {row.account} is configured with `extendable = false`."
        )


def check_prolonging(row: Any, *, longer: bool = True) -> None:
    """Raises LeaseEnding, and TenantSuspended for a change that gives a lease more time. `row`: of statements.LOCK."""
    refusal = prolonging_refusal(Desired(row.desired), tenant_active=not longer or row.tenant_status == "active")
    if refusal is not None:
        raise LeaseEnding if refusal is Refusal.LEASE_ENDING else TenantSuspended


async def _locked(connection: AsyncConnection, principal: Principal, lease_id: str, if_match: IfMatch) -> Any:
    mine = statements.named(lease_key(lease_id), principal.tenant_id)
    row = (await connection.execute(statements.LOCK, mine)).one_or_none()
    if row is None:
        raise ResourceNotFound
    if_match.check(row.id, row.version)
    return row


def _raises_cap(row: Any, cap: Decimal | None) -> bool:
    return row.max_cost is not None and (cap is None or cap > row.max_cost)


async def _read(connection: AsyncConnection, principal: Principal, lease_id: str) -> Any:
    return (await connection.execute(statements.READ, statements.named(lease_id, principal.tenant_id))).one()


async def _written(
    connection: AsyncConnection,
    principal: Principal,
    lease_id: str,
    event: NewEvent,
    values: dict[str, Any],
    bindings: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    parameters = {**parameter(principal.tenant_id), **bindings}
    changed = transitions.write(LeaseId(lease_id), event, where=[transitions.OWNED], bindings=parameters, values=values)
    await connection.execute(*changed)
    return await _read(connection, principal, lease_id)


async def _extend(
    connection: AsyncConnection, principal: Principal, lease_id: str, later: LaterExpiry, if_match: IfMatch
) -> Any:
    """The lease becomes due at once, so that a worker writes the new deadline to the provider's tags."""
    row = await _locked(connection, principal, lease_id, if_match)
    await check_cost_owner(connection, principal, row.key_id)
    until = later.after(row.expires_at)
    check_extension(row, later, until)
    times = {"before": {"expires_at": row.expires_at}, "after": {"expires_at": until}}
    await record_lease(connection, principal, "lease.extend", row, **times)
    row = await move_expiry(connection, principal, row, until)
    await recommit(connection, principal, row.tenant_id, [row.id])
    return row


async def move_expiry(connection: AsyncConnection, principal: Principal, row: Any, until: datetime) -> Any:
    """Writes the later expiry of a locked lease, with its event. Call `recommit` after it."""
    event = NewEvent(LeaseExtended(expires_at=until), principal.request_id)
    values = {"expires_at": until, **notices.EXTENDED, **transitions.WAKE}
    return await _written(connection, principal, row.id, event, values, {"until": until})


async def recommit(
    connection: AsyncConnection, principal: Principal, tenant_id: str, lease_ids: Collection[str]
) -> None:
    """Reserves what changed leases of a tenant now hold of budgets: for all of them, or BudgetExceeded.

    The caller has locked the leases.
    """
    held = (await connection.execute(*quotas.recommit(tenant_id, lease_ids))).one()
    if held.fits:
        return
    asked = budgets.asked_by(lease_ids)
    refusal = await budget_refusal(connection, tenant_id, asked, within=principal.tenant_id)
    if refusal is not None:
        raise refusal
    if not (await connection.execute(*quotas.recommit(tenant_id, lease_ids))).one().fits:
        raise BudgetExceeded


def check_extension(row: Any, later: LaterExpiry, until: datetime) -> None:
    """Raises an error unless a lease, a row of statements.LOCK, can last until then."""
    latest = min(
        row.created_at + timedelta(seconds=row.max_total_seconds), row.as_of + timedelta(seconds=row.max_ttl_seconds)
    )
    reserved = row.reserved_until is not None and row.reserved_until < latest
    latest = row.reserved_until if reserved else latest
    extension = Extension(
        desired=Desired(row.desired),
        expired=row.over,
        tenant_active=row.tenant_status == "active",
        extendable=not row.not_extendable,
        lengthens=until > row.expires_at,
        exceeds_terms=until > latest,
    )
    match extension_refusal(extension):
        case Refusal.LEASE_ENDING:
            raise LeaseEnding
        case Refusal.TENANT_SUSPENDED:
            raise TenantSuspended
        case Refusal.NOT_LATER:
            field = FieldError("#/body/" + later.field, "must be later than the present expiry")
            raise NotLater(f"The lease already lasts until {rfc3339(row.expires_at)}.", errors=[field])
        case Refusal.NOT_EXTENDABLE:
            raise NotExtendable(
                f"The cloud deletes this VM after {rfc3339(row.expires_at)}, and nobody can move that time while the VM "
                f"runs: the account {row.account} is configured with `extendable = false`.",
            )
        case Refusal.TERM_EXCEEDED:
            why = ": the reservation in which its VM runs ends then" if reserved else ""
            detail = f"The lease may last until {rfc3339(latest)} at the latest{why}."
            field = FieldError("#/body/" + later.field, f"ends the lease after {rfc3339(latest)}")
            raise TermExceeded(detail, errors=[field], extra={"latest_expires_at": rfc3339(latest)})


def _updated(changed: dict[str, Any]) -> LeaseUpdated:
    cap = changed.get("max_cost")
    warnings = changed.get("expiry_warnings")
    return LeaseUpdated(
        name=changed.get("name"),
        labels=changed.get("labels"),
        max_cost=None if cap is None else format_money(cap),
        expiry_warnings_seconds=None if warnings is None else tuple(warnings),
    )


def released_by(principal: Principal) -> Reason:
    """Why a lease ends that the principal releases."""
    if principal.is_operator:
        return Reason(ReasonCode.RELEASED_BY_OPERATOR, "an operator requested the release", Origin.OPERATOR)
    return Reason(ReasonCode.RELEASED_BY_USER, "a user of the tenant requested the release", Origin.USER)
