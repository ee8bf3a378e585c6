"""Idleness of a lease: holding it off, and the samples for which it was found."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.tenant_scope import parameter
from app.db.events.events import NewEvent
from app.db.leases import idle_evidence, statements, transitions
from app.db.tenancy import tenants
from app.domain.events import LeaseKept
from app.domain.idleness import IdleFloor, longest_keep
from app.domain.ids import LeaseId
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, ResourceNotFound
from app.services.idempotency import IdempotencyKey, Reply, repeatable
from app.services.leases.changes import check_prolonging
from app.services.leases.leases import lease_key
from app.services.money.cost_owners import check_cost_owner
from app.services.ops.audit import record_lease
from app.services.preconditions import IfMatch
from app.services.principal import Principal


class LeaseIdleness:
    """Operations on the idleness of a lease."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    @asynccontextmanager
    async def keep(
        self, principal: Principal, lease_id: str, seconds: int, *, if_match: IfMatch, key: IdempotencyKey | None
    ) -> AsyncIterator[Reply]:
        """The lease does not count as idle for so long from now. A call with a shorter time shortens it again.

        Raises ResourceNotFound, VersionConflict, LeaseEnding, TenantSuspended, InvalidRequest, KeyHasBudget and what `repeatable` raises.
        """
        async with (
            self._context.database.transaction(principal.tenant_id) as connection,
            repeatable(connection, key, 200) as reply,
        ):
            if not reply.replayed:
                reply.row = await _keep(connection, principal, lease_key(lease_id), seconds, if_match)
            yield reply

    async def evidence(self, principal: Principal, lease_id: str) -> dict[str, Any]:
        """Raises ResourceNotFound for an unknown lease, and for one that never counted as idle."""
        mine = principal.tenant_id
        row = await self._context.database.rows(mine, idle_evidence.of_lease(lease_key(lease_id), within=mine))
        if not row or row[0]["idle_evidence"] is None:
            raise ResourceNotFound
        return dict(row[0]["idle_evidence"])


async def _keep(
    connection: AsyncConnection, principal: Principal, lease_id: str, seconds: int, if_match: IfMatch
) -> Any:
    mine = statements.named(lease_id, principal.tenant_id)
    row = (await connection.execute(statements.LOCK, mine)).one_or_none()
    if row is None:
        raise ResourceNotFound
    if_match.check(row.id, row.version)
    await check_cost_owner(connection, principal, row.key_id)
    check_prolonging(row)
    await _check_floor(connection, principal, row.tenant_id, seconds)
    until = row.as_of + timedelta(seconds=seconds)
    await record_lease(
        connection, principal, "lease.keep", row, before={"keep_until": row.keep_until}, after={"keep_until": until}
    )
    event = NewEvent(LeaseKept(keep_until=until), principal.request_id)
    bindings, values = parameter(principal.tenant_id), {"keep_until": until}
    changed = transitions.write(LeaseId(row.id), event, where=[transitions.OWNED], bindings=bindings, values=values)
    await connection.execute(*changed)
    return (await connection.execute(statements.READ, mine)).one()


async def _check_floor(connection: AsyncConnection, principal: Principal, tenant_id: str, seconds: int) -> None:
    """Operators may keep a lease for any time. Raises InvalidRequest."""
    if principal.is_operator:
        return
    tenant = (await connection.execute(tenants.get(tenant_id, within=principal.tenant_id))).one()
    most = longest_keep(IdleFloor.from_json(tenant.idle_floor) if tenant.idle_floor else None)
    if most is not None and seconds > most:
        detail = f"must be at most {most}, which the operator allows for this tenant"
        raise InvalidRequest(errors=[FieldError("#/body/seconds", detail)])
