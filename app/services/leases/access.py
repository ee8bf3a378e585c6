"""Access to a lease's VM: reboots, and the console output of a VM that did not boot."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.leases import consoles, reboots, statements
from app.domain.ids import LeaseId
from app.domain.lease_actions import Refusal, reboot_refusal
from app.domain.leases import Desired, LeaseState
from app.services.context import ServiceContext
from app.services.errors import LeaseEnding, LeaseNotActive, ResourceNotFound
from app.services.idempotency import IdempotencyKey, Reply, repeatable
from app.services.leases.leases import lease_key
from app.services.ops.audit import record_lease
from app.services.preconditions import IfMatch
from app.services.principal import Principal


class LeaseAccess:
    """Operations on the VM of a lease."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    @asynccontextmanager
    async def reboot(
        self, principal: Principal, lease_id: str, *, if_match: IfMatch, key: IdempotencyKey | None
    ) -> AsyncIterator[Reply]:
        """Stores the request; a worker sends it to the provider.

        Raises ResourceNotFound, VersionConflict, LeaseEnding, LeaseNotActive and what `repeatable` raises.
        """
        async with (
            self._context.database.transaction(principal.tenant_id) as connection,
            repeatable(connection, key, 202) as reply,
        ):
            if not reply.replayed:
                reply.row = await _requested(connection, principal, lease_key(lease_id), if_match)
            yield reply
        if not reply.replayed:
            self._context.hints.wake(LeaseId(lease_id))

    async def console(self, principal: Principal, lease_id: str) -> Sequence[Any]:
        """Rows of consoles.of_lease. Raises ResourceNotFound."""
        mine = principal.tenant_id
        async with self._context.database.transaction(mine, read_only=True) as connection:
            known = await connection.execute(statements.VERSION, statements.named(lease_key(lease_id), mine))
            if known.first() is None:
                raise ResourceNotFound
            rows: Sequence[Any] = (await connection.execute(consoles.of_lease(lease_id, within=mine))).all()
        return rows


async def _requested(connection: AsyncConnection, principal: Principal, lease_id: str, if_match: IfMatch) -> Any:
    mine = statements.named(lease_id, principal.tenant_id)
    row = (await connection.execute(statements.LOCK, mine)).one_or_none()
    if row is None:
        raise ResourceNotFound
    if_match.check(row.id, row.version)
    _check_reboot(row)
    await connection.execute(*reboots.request(LeaseId(lease_id), principal.request_id, within=principal.tenant_id))
    change = {"before": {"reboot_requested": False}, "after": {"reboot_requested": True}}
    await record_lease(connection, principal, "lease.reboot", row, **change)
    return (await connection.execute(statements.READ, mine)).one()


def _check_reboot(row: Any) -> None:
    match reboot_refusal(Desired(row.desired), LeaseState(row.state)):
        case Refusal.LEASE_ENDING:
            raise LeaseEnding
        case Refusal.LEASE_NOT_ACTIVE:
            raise LeaseNotActive(f"The lease is {row.state}; only the VM of an active lease can be rebooted.")
