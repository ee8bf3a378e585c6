"""Reservations: capacity that the installation bought ahead, and which leases may use it until when."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from app.domain.vm_parts import PartsRequest
from app.domain.volumes import VolumePlace

ENDING_MARGIN = timedelta(minutes=5)
"""A lease ends this long before its reservation, so that its VM is gone when the reservation ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation as the operator configured it and as its provider reported it last.

    `free`: VMs that can still be placed, less those that are on their way; None: the reservation has no fixed size.
    `tenants`: ids of the tenants that may use it; empty: all tenants.
    `starts_at`, `ends_at`: when VMs may run in it; None: no limit.
    `shortest_wait`: seconds that a launch may wait in the provider's queue at least; None: there is no queue.
    `longest_run`: seconds that one VM may run; None: no limit.
    `problem`: why the provider accepts no VM in it.
    """

    name: str
    kind: str
    tenants: frozenset[str] = frozenset()
    slots: int | None = None
    free: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    shortest_wait: int | None = None
    longest_run: int | None = None
    problem: str | None = None

    def admits(self, tenant_id: str) -> bool:
        """Whether the tenant is on the allow-list."""
        return not self.tenants or tenant_id in self.tenants

    def last_expiry(self, now: datetime) -> datetime | None:
        """The latest expiry of a lease that is placed in it at `now`. None: no limit."""
        ends = [] if self.ends_at is None else [self.ends_at]
        if self.longest_run is not None:
            ends.append(now + timedelta(seconds=self.longest_run))
        return min(ends) - ENDING_MARGIN if ends else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The part of a lease that placement reads besides its requirements. `waits`: how long it may wait for capacity in all.

    `parts`: what it requests besides compute. `spendable`: USD that its next VM may cost. None: no spend cap.
    `max_rate`: USD an hour that its VM may cost with all its parts. None: no quote limits it. `volume_place`: where its
    volumes are. None: it has none.
    """

    tenant_id: str
    expires_at: datetime
    wait_until: datetime
    waits: timedelta
    parts: PartsRequest
    spendable: Decimal | None = None
    max_rate: Decimal | None = None
    volume_place: VolumePlace | None = None


def lasting_objection(reservation: Reservation, term: Term, now: datetime) -> str | None:
    """Why a lease of this term can never be placed in the reservation, or None."""
    if reservation.problem is not None:
        return f"reservation {reservation.name} cannot be used: {reservation.problem}"
    last = reservation.last_expiry(now)
    if last is not None and term.expires_at > last:
        seconds = max(0, int((last - now).total_seconds()))
        return (
            f"leases in reservation {reservation.name} end by {_rfc3339(last)}: "
            f"request a ttl_seconds of at most {seconds}"
        )
    starts_at = reservation.starts_at
    if starts_at is not None and starts_at > max(now, term.wait_until):
        return (
            f"reservation {reservation.name} starts at {_rfc3339(starts_at)}: request a wait_seconds of at least "
            f"{int((starts_at - now).total_seconds()) + 1}"
        )
    wait = reservation.shortest_wait
    if wait is not None and term.waits < timedelta(seconds=wait):
        return (
            f"launches in reservation {reservation.name} wait in the provider's queue: "
            f"request a wait_seconds of at least {wait}"
        )
    return None


def passing_objection(reservation: Reservation, now: datetime) -> str | None:
    """Why no lease can be placed in the reservation at `now`, although one may be later. None: it can."""
    if reservation.starts_at is not None and reservation.starts_at > now:
        return f"reservation {reservation.name} starts at {_rfc3339(reservation.starts_at)}"
    if reservation.free is not None and reservation.free <= 0:
        return f"no slot of reservation {reservation.name} is free"
    return None


def _rfc3339(when: datetime) -> str:
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")
