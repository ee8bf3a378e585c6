"""What suspending a tenant does to its leases."""

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.leases.transitions import ids_in, locked, request_end
from app.domain.ids import LeaseId, TenantId
from app.domain.leases import LeaseState, sources
from app.domain.reasons import Origin, Reason, ReasonCode
from app.services.principal import Principal

_REASON = Reason(ReasonCode.TENANT_SUSPENDED, "The tenant was suspended.", Origin.OPERATOR)


async def end_leases_of(
    connection: AsyncConnection, principal: Principal, tenant_id: TenantId, *, running: bool
) -> list[LeaseId]:
    """Ends what is queued, and with `running` all else too. Answers the leases to wake after the commit."""
    states = sources(LeaseState.RELEASING) if running else (LeaseState.QUEUED,)
    ended = []
    lease_ids = (await connection.execute(ids_in(tenant_id, states))).scalars().all()
    await connection.execute(*locked(lease_ids))
    for lease_id in lease_ids:
        told = await connection.execute(*request_end(LeaseId(lease_id), _REASON, principal.request_id))
        ended += [LeaseId(row.lease_id) for row in told]
    return ended
