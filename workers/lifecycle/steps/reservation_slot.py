"""The slot of a reservation that an attempt is planned in."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from app.db.fleet import reservations
from app.domain.offerings import Offering
from app.domain.reservations import Reservation, Term, lasting_objection, passing_objection
from workers.lifecycle.steps.context import StepContext


class NoSlotError(Exception):
    """Since the offerings were read, the reservation was filled or changed: nothing is stored, try the next.

    The message is for the tenant.
    """


@dataclass(frozen=True, slots=True)
class ReservationSlot:
    """A free slot of a reservation. `until`: the latest expiry of a lease in it; None: no limit."""

    reservation: Reservation
    until: datetime | None

    def placement(self) -> dict[str, str | None]:
        """The members of a lease's placement."""
        return {"reserved_until": None if self.until is None else self.until.isoformat().replace("+00:00", "Z")}


def lease_term(ctx: StepContext) -> Term:
    """What decides, besides its requirements, where the lease may be placed."""
    lease = ctx.lease
    return Term(
        tenant_id=lease.tenant_id,
        expires_at=lease.expires_at,
        wait_until=lease.wait_until,
        waits=lease.waits,
        parts=lease.request.parts,
        spendable=lease.spendable,
        max_rate=lease.max_rate,
        volume_place=lease.volume_place,
    )


def take_slot(connection: Connection, ctx: StepContext, offering: Offering) -> ReservationSlot | None:
    """Locks the reservation until the attempt is stored, and checks it again. None: the offering is no reservation."""
    account, name = offering.key.account, offering.key.reservation
    if name is None:
        return None
    connection.execute(reservations.lock(account, name))
    row = connection.execute(reservations.read(account, name)).first()
    if row is None:
        raise NoSlotError(f"reservation {name} is no longer configured")
    reservation = reservations.reservation_from_row(row, free=row.free_now)
    if not reservation.admits(ctx.lease.tenant_id):
        raise NoSlotError("no offering fits the request at present")
    term, now = lease_term(ctx), ctx.now
    objection = lasting_objection(reservation, term, now) or passing_objection(reservation, now)
    if objection is not None:
        raise NoSlotError(objection)
    return ReservationSlot(reservation, reservation.last_expiry(ctx.now))
