"""The only statements that change a lease's state: guarded UPDATEs that append the event in the same breath."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, Select, func, select, update

from app.db.events import NewEvent, append_to_leases
from app.db.scope import owned
from app.db.tables import event, lease
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState, sources


def write(
    lease_id: LeaseId,
    new: NewEvent,
    *,
    to: LeaseState | None = None,
    claim_id: UUID | None = None,
    where: Iterable[ColumnElement[bool]] = (),
    values: Mapping[str, Any] | None = None,
) -> Executable:
    """Changes a lease and tells it. Answers one row (lease_id, lease_sequence), or none when the guard held it off.

    `to` is written only from the states that the transition table allows. `claim_id`: only while this claim
    holds the lease; decisions of workers always give it, the API never does.
    """
    guards = [lease.c.id == lease_id, *where]
    changes: dict[str, Any] = {
        "version": lease.c.version + 1,
        "events_count": lease.c.events_count + 1,
        "updated_at": func.now(),
        **(values or {}),
    }
    if new.request_id is not None:
        changes["request_id"] = new.request_id
    if to is not None:
        guards.append(lease.c.state.in_([str(state) for state in sources(to)]))
        changes["state"] = str(to)
    if claim_id is not None:
        guards.append(lease.c.claim_id == claim_id)
    changed = (
        update(lease)
        .where(*guards)
        .values(changes)
        .returning(lease.c.id, lease.c.tenant_id, lease.c.events_count)
        .cte("changed")
    )
    return append_to_leases(changed, new).returning(event.c.lease_id, event.c.lease_sequence)


def locked(lease_ids: Iterable[str]) -> Select[Any]:
    """Locks these leases, in the order of their ids. Whoever writes attempts locks their leases first: so nobody waits in a circle."""
    return (
        select(lease.c.id).where(lease.c.id.in_(list(lease_ids))).order_by(lease.c.id).with_for_update(key_share=True)
    )


def wake() -> dict[str, Any]:
    """Values that make a lease due at once, even when a worker is just about to put it to rest."""
    return {"next_due": func.now(), "wake_count": lease.c.wake_count + 1}


def request_end(
    lease_id: LeaseId, reason: dict[str, Any], request_id: str | None, *, within: str | None = None
) -> Executable:
    """Somebody wants the lease ended: `releasing` from any earlier state, once; no row when it ends or has ended.

    `within`: the tenant that asks; None for operators and workers.
    """
    return write(
        lease_id,
        NewEvent(type="lease.releasing", data={"reason": reason}, request_id=request_id),
        to=LeaseState.RELEASING,
        where=[owned(lease.c.tenant_id, within)],
        values={"desired": "end", "reason": reason, "release_requested_at": func.now(), **wake()},
    )
