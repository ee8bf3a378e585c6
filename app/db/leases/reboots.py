"""Reboots: the API records a request, and a worker sends it.

`reboot_requested_at` is the intent. The worker clears it when the reboot is sent.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, Time
from app.db.core.tenant_scope import parameter
from app.db.events.events import NewEvent
from app.db.leases.transitions import NOW, OWNED, WAKE, write
from app.db.schema.tables import lease
from app.domain.events import LeaseRebooting
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState

_ACTIVE = lease.c.state == str(LeaseState.ACTIVE)
_SAME = lease.c.reboot_requested_at == bindparam("asked_at", type_=Time)


def request(lease_id: LeaseId, request_id: str | None, *, within: str | None) -> Bound[AnyInsert]:
    """Requests a reboot for the tenant `within` (None: an operator).

    Returns no row unless the tenant owns the lease and the lease is active.
    """
    new_event = NewEvent(LeaseRebooting(), request_id)
    return write(
        lease_id,
        new_event,
        where=[_ACTIVE, OWNED],
        bindings=parameter(within),
        values={"reboot_requested_at": NOW, **WAKE},
    )


def over(lease_id: LeaseId, claim_id: UUID, requested_at: datetime, event: NewEvent) -> Bound[AnyInsert]:
    """Clears the reboot request of `requested_at`, which was sent or given up. A later request stays."""
    bindings = {"asked_at": requested_at}
    return write(
        lease_id, event, claim_id=claim_id, where=[_SAME], bindings=bindings, values={"reboot_requested_at": None}
    )
