"""What keeps a lease from launching at each of its candidates."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from app.domain import quotas
from app.domain.cool_off import CoolOffReason
from app.domain.explanations.placement_failure import not_listed
from app.domain.lease_offerings import (
    quote_objection,
    reservation_objection,
    spend_cap_objection,
    volume_kind_objection,
    volume_objection,
)
from app.domain.offerings import CoolOff, Offering, OfferingKey
from app.domain.placement import PATIENCE, much_dearer
from app.domain.provider_messages import public_code
from app.domain.rates import price_at
from app.domain.reservations import Term
from app.domain.vm_parts import PartsRequest


class CandidateVerdict(StrEnum):
    """What keeps a lease from launching at a candidate now. The list may grow.

    `free`: nothing. `launching`: an attempt is in progress there. `refused`: it refused in the current pass. `over_quota`:
    it needs more than the tenant's quota has left. `region_not_listed`: its region has no complete listing yet.
    `waits_for_cheaper`: a much cheaper candidate is in such a region. `cooling_off`: it is in cool-off. `no_slot`: the
    reservation has no free slot, or has not started.
    """

    FREE = "free"
    LAUNCHING = "launching"
    REFUSED = "refused"
    OVER_QUOTA = "over_quota"
    REGION_NOT_LISTED = "region_not_listed"
    WAITS_FOR_CHEAPER = "waits_for_cheaper"
    COOLING_OFF = "cooling_off"
    NO_SLOT = "no_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """The tenant's limits and use by resource, and the part of the use that the explained lease reserves."""

    limits: Mapping[str, Decimal | None] = field(default_factory=dict)
    used: Mapping[str, Decimal] = field(default_factory=dict)
    reserved: Mapping[str, Decimal] = field(default_factory=dict)
    _known: dict[tuple[str, int, Decimal | None], list[quotas.Shortage]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def shortages(self, offering: Offering, parts: PartsRequest) -> list[quotas.Shortage]:
        """The resources that the offering needs beyond the quota. `asked` is the increase over what is reserved.

        Computed once for equal needs: a type has the same in most zones.
        """
        gpu = offering.type.gpu
        needs = (gpu.model, gpu.count, price_at(offering, parts))
        if needs not in self._known:
            self._known[needs] = self._shortages(offering, parts)
        return self._known[needs]

    def _shortages(self, offering: Offering, parts: PartsRequest) -> list[quotas.Shortage]:
        none = Decimal(0)
        amounts = quotas.amounts(offering, parts)
        increases = {name: amount - self.reserved.get(name, none) for name, amount in amounts.items()}
        return quotas.shortages(self.limits, self.used, increases)

    def free(self, resource: str) -> Decimal | None:
        """What the lease may use of a resource, its own reservation included. None: any amount."""
        none = Decimal(0)
        others = self.used.get(resource, none) - self.reserved.get(resource, none)
        return quotas.available(resource, self.limits.get(resource), others)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingAttempt:
    """The lease's newest attempt at an offering. `error` is stored with the provider's words: see provider_messages."""

    n: int
    live: bool
    created_at: datetime
    ended_at: datetime | None
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFacts:
    """What decides about candidates, apart from the catalogue.

    `unlisted`: accounts and regions without a complete listing; True where the listing fails. `tried`: the offerings of
    the current pass. `attempts`: the newest attempt at each offering. `looking_since`: the begin of the search. `term`:
    what decides about reservations.
    """

    now: datetime
    looking_since: datetime
    term: Term
    quota: QuotaState
    unlisted: Mapping[tuple[str, str], bool]
    tried: frozenset[OfferingKey]
    attempts: Mapping[OfferingKey, OfferingAttempt]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """A candidate with its verdict. `message` is a clause for the tenant.

    `since` is None where it is not known.
    """

    offering: Offering
    verdict: CandidateVerdict
    message: str
    since: datetime | None
    cool_off_until: datetime | None
    last_attempt: OfferingAttempt | None


COOL_OFF_TEXTS: Mapping[CoolOffReason, str] = MappingProxyType(
    {
        CoolOffReason.NO_CAPACITY: "the provider had no capacity",
        CoolOffReason.PROVIDER_QUOTA: "the installation's own quota at the provider was used up",
        CoolOffReason.NOT_OFFERED: "the provider did not offer this instance type there",
        CoolOffReason.PROVIDER_ERROR: "the provider did not respond",
        CoolOffReason.REFUSED: "the provider refused the launch",
        CoolOffReason.IMAGE_MISSING: "no driver-ready image was found there",
        CoolOffReason.INTERRUPTED: "the provider interrupted a spot VM there",
        CoolOffReason.BOOT_TIMEOUT: "a VM was not ready in time there",
        CoolOffReason.LAUNCH_TIMEOUT: "a VM did not start in time there",
        CoolOffReason.GPU_CHECK_FAILED: "a VM with broken GPUs came from there",
    }
)


def judge(facts: PlacementFacts, candidates: Iterable[Offering]) -> Iterator[JudgedCandidate]:
    """Yields the candidates with their verdicts, in the same order. `candidates` are in the order of placement."""
    cheapest_unlisted: Offering | None = None
    for offering in candidates:
        verdict, message = _verdict(facts, offering, cheapest_unlisted)
        if verdict is CandidateVerdict.REGION_NOT_LISTED and not _is_dearer(offering, cheapest_unlisted):
            cheapest_unlisted = offering
        attempt = facts.attempts.get(offering.key)
        cooling = offering.cool_off if offering.cooling(facts.now) else None
        yield JudgedCandidate(
            offering=offering,
            verdict=verdict,
            message=message,
            since=None if attempt is None else attempt.ended_at or attempt.created_at,
            cool_off_until=None if cooling is None else cooling.until,
            last_attempt=attempt,
        )


def is_free(facts: PlacementFacts, offering: Offering) -> bool:
    """Whether nothing keeps the lease from launching at an offering that fits. Most are in cool-off when it matters."""
    if offering.cooling(facts.now):
        return False
    objections = (volume_objection, volume_kind_objection, quote_objection, spend_cap_objection)
    if any(objection(offering, facts.term) for objection in objections):
        return False
    return next(_obstacles(facts, offering, None), None) is None


def _is_dearer(offering: Offering, other: Offering | None) -> bool:
    return other is not None and (offering.price_per_hour or 0) > (other.price_per_hour or 0)


def _verdict(facts: PlacementFacts, o: Offering, cheapest_unlisted: Offering | None) -> tuple[CandidateVerdict, str]:
    free = CandidateVerdict.FREE, "gpulease can launch here now"
    return next(_obstacles(facts, o, cheapest_unlisted), free)


def _obstacles(
    facts: PlacementFacts, o: Offering, cheapest_unlisted: Offering | None
) -> Iterator[tuple[CandidateVerdict, str]]:
    """The obstacle that lasts longest comes first: a cool-off ends by itself, a quota does not."""
    attempt = facts.attempts.get(o.key)
    if attempt is not None and attempt.live:
        yield CandidateVerdict.LAUNCHING, "an attempt is in progress"
    objection = reservation_objection(o, facts.term, facts.now, launching=True)
    if objection is not None:
        yield CandidateVerdict.NO_SLOT, objection
    for short in facts.quota.shortages(o, facts.term.parts):
        yield CandidateVerdict.OVER_QUOTA, _shortage(facts, o, short.resource)
    failed = facts.unlisted.get((o.key.account, o.key.region))
    if failed is not None:
        yield CandidateVerdict.REGION_NOT_LISTED, not_listed(o.provider, o.key.region, failed=failed).message
    if o.cool_off is not None and o.cooling(facts.now):
        yield CandidateVerdict.COOLING_OFF, cool_off_text(o.cool_off)
    if o.key in facts.tried:
        yield CandidateVerdict.REFUSED, "it refused in this pass; gpulease tries it again in the next pass"
    is_patient = facts.now < facts.looking_since + PATIENCE
    if is_patient and cheapest_unlisted is not None and much_dearer(o, [cheapest_unlisted]):
        yield CandidateVerdict.WAITS_FOR_CHEAPER, "gpulease waits for a much cheaper candidate for up to a minute"


def _shortage(facts: PlacementFacts, offering: Offering, resource: str) -> str:
    needed = quotas.json_amount(resource, quotas.amounts(offering, facts.term.parts)[resource])
    free = quotas.json_amount(resource, facts.quota.free(resource) or Decimal(0))
    return f"it needs {needed} {resource}, and the quota has {free} left"


def cool_off_text(cool_off: CoolOff) -> str:
    """Why an offering is in cool-off, with the provider's code. A clause for the tenant."""
    known = cool_off.reason in set(CoolOffReason)
    text = COOL_OFF_TEXTS[CoolOffReason(cool_off.reason)] if known else "it refused a launch"
    code = public_code(cool_off.code)
    return f"in cool-off: {text}" + (f" ({code})" if code else "")
