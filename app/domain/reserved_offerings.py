"""The part of placement that differs from lease to lease: reservations have an allow-list, an end, a start and slots."""

from datetime import datetime, timedelta

from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Offering
from app.domain.placement import Excluded, Exclusion, Ranking
from app.domain.reservations import Term, lasting_objection, passing_objection


def term_of(request: LeaseRequest, tenant_id: str, now: datetime) -> Term:
    """The term of a lease that is requested at `now`."""
    waits = timedelta(seconds=request.wait_seconds)
    return Term(
        tenant_id=tenant_id,
        expires_at=now + timedelta(seconds=request.ttl_seconds),
        wait_until=now + waits,
        waits=waits,
    )


def for_term(ranking: Ranking, term: Term, now: datetime, *, launching: bool) -> Ranking:
    """The ranking for one lease: without reservations of other tenants, and with those excluded that do not fit its term.

    `launching`: the lease is placed now, so a reservation also needs a free slot and must have started.
    """
    excluded = [e for e in ranking.excluded if is_visible(e.offering, term.tenant_id)]
    candidates: list[Offering] = []
    for offering in ranking.candidates:
        if not is_visible(offering, term.tenant_id):
            continue
        objection = reservation_objection(offering, term, now, launching=launching)
        if objection is None:
            candidates.append(offering)
        else:
            excluded.append(Excluded(offering=offering, code=Exclusion.RESERVATION, detail=objection))
    return Ranking(candidates=tuple(candidates), excluded=tuple(excluded))


def reservation_objection(offering: Offering, term: Term, now: datetime, *, launching: bool) -> str | None:
    """Why a lease of this term cannot use the offering's reservation. None: it can, or the offering has none."""
    reservation = offering.reservation
    if reservation is None:
        return None
    objection = lasting_objection(reservation, term, now)
    return passing_objection(reservation, now) if objection is None and launching else objection


def is_visible(offering: Offering, tenant_id: str | None) -> bool:
    """Whether a tenant sees the offering. None: an operator, who sees every reservation."""
    return tenant_id is None or offering.reservation is None or offering.reservation.admits(tenant_id)
