"""Reboots: asked for by the API, sent by a worker. `reboot_requested_at` is the intent; it goes when the reboot is sent."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Executable, func

from app.db.events import NewEvent
from app.db.scope import owned
from app.db.tables import lease
from app.db.transitions import wake, write
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState

_ACTIVE = lease.c.state == str(LeaseState.ACTIVE)


def request(lease_id: LeaseId, request_id: str | None, *, within: str | None) -> Executable:
    """The tenant `within` (None: an operator) wants a reboot; no row unless the lease is its own and active."""
    told = NewEvent(type="lease.rebooting", request_id=request_id)
    return write(
        lease_id,
        told,
        where=[_ACTIVE, owned(lease.c.tenant_id, within)],
        values={"reboot_requested_at": func.now(), **wake()},
    )


def over(lease_id: LeaseId, claim_id: UUID, requested_at: datetime, told: NewEvent) -> Executable:
    """The reboot asked for at `requested_at` was sent or given up; one asked for since then stays."""
    same = lease.c.reboot_requested_at == requested_at
    return write(lease_id, told, claim_id=claim_id, where=[same], values={"reboot_requested_at": None})
