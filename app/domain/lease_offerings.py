"""The part of placement that differs from lease to lease.

Reservations have an allow-list, an end, a start and slots. A spend cap excludes what it does not pay for long enough.
"""

from datetime import datetime, timedelta
from decimal import Decimal

from app.domain.billing import cost
from app.domain.lease_requests import LeaseRequest
from app.domain.money import format_money
from app.domain.offerings import Offering
from app.domain.placement import Excluded, Exclusion, Ranking
from app.domain.rates import rate_at
from app.domain.reservations import Term, lasting_objection, passing_objection
from app.domain.volumes import VolumePlace

LEAST_RUN = timedelta(minutes=1)
"""A VM that the spend cap pays for less time is not launched."""


def term_of(
    request: LeaseRequest,
    tenant_id: str,
    now: datetime,
    *,
    spendable: Decimal | None = None,
    max_rate: Decimal | None = None,
    volume_place: VolumePlace | None = None,
) -> Term:
    """The term of a lease that is requested at `now`. See `Term`."""
    waits = timedelta(seconds=request.wait_seconds)
    return Term(
        tenant_id=tenant_id,
        expires_at=now + timedelta(seconds=request.ttl_seconds),
        wait_until=now + waits,
        waits=waits,
        parts=request.parts,
        spendable=spendable,
        max_rate=max_rate,
        volume_place=volume_place,
    )


def for_term(ranking: Ranking, term: Term, now: datetime, *, launching: bool) -> Ranking:
    """The ranking for one lease: without reservations of other tenants, and with what does not fit its term excluded.

    Offerings that only VMs of its own tenant speak against come after those that are not in cool-off.
    `launching`: the lease is placed now, so a reservation also needs a free slot and must have started.
    """
    excluded = [e for e in ranking.excluded if is_visible(e.offering, term.tenant_id)]
    candidates: list[Offering] = []
    suspected = False
    for ranked in ranking.candidates:
        offering = ranked.as_seen_by(term.tenant_id, now)
        suspected |= offering is not ranked
        if not is_visible(offering, term.tenant_id):
            continue
        objection = term_objection(offering, term, now, launching=launching)
        if objection is None:
            candidates.append(offering)
        else:
            excluded.append(objection)
    if suspected:
        candidates.sort(key=lambda offering: offering.cooling(now))
    return Ranking(candidates=tuple(candidates), excluded=tuple(excluded))


def term_objection(offering: Offering, term: Term, now: datetime, *, launching: bool) -> Excluded | None:
    """Why a lease of this term cannot use a candidate, or None."""
    objection = reservation_objection(offering, term, now, launching=launching)
    if objection is not None:
        return Excluded(offering=offering, code=Exclusion.RESERVATION, detail=objection)
    objection = volume_objection(offering, term)
    if objection is not None:
        return Excluded(offering=offering, code=Exclusion.VOLUME_ELSEWHERE, detail=objection)
    objection = volume_kind_objection(offering, term)
    if objection is not None:
        return Excluded(offering=offering, code=Exclusion.VOLUME_KIND, detail=objection)
    objection = quote_objection(offering, term)
    if objection is not None:
        return Excluded(offering=offering, code=Exclusion.QUOTE, detail=objection)
    objection = spend_cap_objection(offering, term)
    return None if objection is None else Excluded(offering=offering, code=Exclusion.SPEND_CAP, detail=objection)


def volume_objection(offering: Offering, term: Term) -> str | None:
    """Why the lease's volumes are too far from a VM at the offering. None: they are not, or the lease has none."""
    place, key = term.volume_place, offering.key
    if place is None or place.holds(key.account, key.region, key.zone):
        return None
    return f"is in {key.zone or key.region} of account {key.account}, and the volumes are in {place}"


def volume_kind_objection(offering: Offering, term: Term) -> str | None:
    """Why a VM at the offering cannot attach the lease's volumes, and what helps. None: it can, or the lease has none."""
    place = term.volume_place
    objection = None if place is None else offering.parts.volume_objection(offering.type.name, place.kinds)
    if objection is None:
        return None
    return (
        f"{objection}: request another instance type, or a new volume after operators have set disk_type of the account"
    )


def quote_objection(offering: Offering, term: Term) -> str | None:
    """Why the lease's quote does not cover a VM at the offering. None: it does, or the lease has no quote."""
    if term.max_rate is None or offering.price_per_hour is None:
        return None
    rate = rate_at(offering, term.parts)
    if rate.total <= term.max_rate:
        return None
    usd, quoted = format_money(rate.total), format_money(term.max_rate)
    return f"costs {usd} USD an hour with its disks and address, and the quote covers {quoted}"


def spend_cap_objection(offering: Offering, term: Term) -> str | None:
    """Why what is left of the spend cap does not pay for a VM at the offering. None: it does, or there is no cap."""
    if term.spendable is None or offering.price_per_hour is None:
        return None
    rate = rate_at(offering, term.parts).total
    if cost(rate, LEAST_RUN) <= term.spendable:
        return None
    left, usd = format_money(term.spendable), format_money(rate)
    return f"costs {usd} USD an hour, and {left} USD of max_cost are left, less than for a minute"


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
