"""What suspending a tenant does to its leases, and what it keeps the tenant from changing."""

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.leases.transitions import ids_in, locked, request_end
from app.db.tenancy import tenants
from app.domain.ids import LeaseId, TenantId
from app.domain.leases import LeaseState, sources
from app.domain.reasons import SUSPENDED
from app.services.acting_tenant import unknown_tenant
from app.services.errors import TenantSuspended
from app.services.principal import Principal


async def end_leases_of(
    connection: AsyncConnection, principal: Principal, tenant_id: TenantId, *, running: bool
) -> list[LeaseId]:
    """Ends what is queued, and with `running` all else too. Answers the leases to wake after the commit."""
    states = sources(LeaseState.RELEASING) if running else (LeaseState.QUEUED,)
    ended = []
    lease_ids = (await connection.execute(ids_in(tenant_id, states))).scalars().all()
    await connection.execute(*locked(lease_ids))
    for lease_id in lease_ids:
        result = await connection.execute(*request_end(LeaseId(lease_id), SUSPENDED, principal.request_id))
        ended += [LeaseId(row.lease_id) for row in result]
    return ended


async def lock_active(connection: AsyncConnection, principal: Principal, tenant_id: str) -> None:
    """Locks the tenant before a change that neither ends nor restricts anything. Operators may change what a suspended one has.

    Call it before other rows are locked. A suspension that begins meanwhile waits for the end of the transaction. Raises
    TenantSuspended, and InvalidRequest when the body names an unknown tenant.
    """
    result = await connection.execute(tenants.get(tenant_id, within=principal.tenant_id, lock=True))
    row = result.first()
    if row is None:
        raise unknown_tenant()
    if row.status == "suspended" and not principal.is_operator:
        raise TenantSuspended


async def lock_own(connection: AsyncConnection, principal: Principal) -> None:
    """As `lock_active`, for a change of something that the principal's tenant has. Does nothing for operators."""
    if principal.tenant_id is not None:
        await lock_active(connection, principal, principal.tenant_id)
