"""Response models of an explanation, and their serializer."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Details, Moment, Money, View
from app.api.schemas.costs import RateParts
from app.api.schemas.hardware import ALL_PARTS, GROWS, Gpu
from app.api.schemas.lease_serializer import attempt_error
from app.api.schemas.leases import AttemptError
from app.domain.explanations.candidate_verdicts import CandidateVerdict, JudgedCandidate, OfferingAttempt
from app.domain.explanations.explanations import ExplanationCode, QuotaNeed
from app.domain.explanations.near_misses import ExcludedGroup, Suggestion
from app.domain.leases import LeaseState
from app.domain.offerings import Market, Offering
from app.domain.placed import type_facts
from app.domain.placement import Exclusion
from app.domain.quotas import JsonAmount, json_amount, json_limit
from app.domain.rates import rate_at
from app.domain.vm_parts import PartsRequest
from app.services.leases.explanations import ExplainedLease
from app.services.leases.refusals import exclusion_detail
from app.services.principal import Role


class ExplainedOffering(View):
    """An offering of an explanation."""

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description="The market of the offering. " + GROWS)]
    reservation: Annotated[str | None, Field(description="Its name, in the market `reserved` alone.")]
    gpu: Gpu
    price_per_hour: Annotated[Money | None, Field(description=f"{ALL_PARTS} Null while unknown.")]
    parts: RateParts | None


class ExplainedAttempt(View):
    """The lease's newest attempt at a candidate. `n` counts the attempts of the lease from 1."""

    n: int
    error: AttemptError | None
    started_at: Moment
    ended_at: Moment | None


class ExplainedCandidate(View):
    """An offering that fits the request, and what keeps the lease from launching there now.

    `since`: the end of the last attempt there, or its start while it is in progress. Null without an attempt.
    """

    offering: ExplainedOffering
    verdict: CandidateVerdict
    message: str
    since: Moment | None
    cool_off_until: Moment | None
    last_attempt: ExplainedAttempt | None


class ExplainedExclusion(View):
    """The offerings that one rule excludes. `nearest`: the offering of the group that misses the request least."""

    code: Annotated[Exclusion, Field(description="The rule that excludes the offering. " + GROWS)]
    count: int
    message: str
    nearest: ExplainedOffering
    nearest_detail: str


class ExplainedQuota(View):
    """A resource that the next candidate needs, or the best one if none is free.

    `reserved` is the part of `used` that this lease reserves. `free` is what this lease may use; null: any amount.
    """

    resource: str
    limit: JsonAmount | None
    used: JsonAmount
    reserved: JsonAmount
    needed: JsonAmount
    free: JsonAmount | None
    fits: bool


class ExplainedQueue(View):
    """The lease's position in the order of the next tries, among all queued leases and among those of its tenant.

    Positions count from 1. A lease that waits for a later time has a later position, whatever its age.
    """

    position: int
    waiting: int
    position_in_tenant: int
    waiting_in_tenant: int


class ExplainedSuggestion(View):
    """A change of the request that would fit now: a new lease with this change would try `offering` first.

    `change` contains request fields for a create call.
    """

    code: Annotated[Exclusion, Field(description="The rule that the change relaxes. " + GROWS)]
    message: str
    change: Details
    offering: ExplainedOffering


class LeaseExplanation(View):
    """Why a lease is not active yet. The lists are empty where gpulease has no offering to choose."""

    lease_id: str
    state: Annotated[LeaseState, Field(description="The state of the lease. " + GROWS)]
    code: ExplanationCode
    summary: Annotated[str, Field(description="One sentence: what gpulease does now, and when it tries next.")]
    since: Annotated[Moment | None, Field(description="The begin of the current wait or step.")]
    next_try_at: Annotated[
        Moment | None,
        Field(description="When gpulease works on the lease next. Null while a worker does, or without a time."),
    ]
    gives_up_at: Annotated[
        Moment | None, Field(description="When the current wait ends. Null: no time ends it, or it is over.")
    ]
    typical_ready_seconds: Annotated[
        float | None, Field(description="Average time from launch to ready at the offering of the attempt.")
    ]
    retryable: Annotated[
        bool | None, Field(description="Whether the same request may succeed later. Null before the lease has ended.")
    ]
    candidates: Annotated[list[ExplainedCandidate], Field(description="At most 20, in the order of placement.")]
    candidates_count: int
    excluded: Annotated[list[ExplainedExclusion], Field(description="The largest group first.")]
    quota: list[ExplainedQuota]
    queue: Annotated[ExplainedQueue | None, Field(description="Null outside the queue.")]
    suggestions: Annotated[
        list[ExplainedSuggestion],
        Field(description="Single changes that would fit now, cheapest first. Empty while a candidate is free."),
    ]
    as_of: Moment


def explanation_view(explained: ExplainedLease, role: Role) -> LeaseExplanation:
    """The explanation as a caller of this role sees it."""
    explanation, parts = explained.explanation, explained.parts
    situation = explanation.situation
    return LeaseExplanation(
        lease_id=explained.lease_id,
        state=explained.state,
        code=situation.code,
        summary=situation.summary,
        since=situation.since,
        next_try_at=situation.next_try_at,
        gives_up_at=situation.gives_up_at,
        typical_ready_seconds=situation.typical_ready_seconds,
        retryable=situation.retryable,
        candidates=[_candidate(candidate, parts, role) for candidate in explanation.candidates],
        candidates_count=explanation.candidates_count,
        excluded=[exclusion_view(group, parts, operator=role is Role.OPERATOR) for group in explanation.excluded],
        quota=[_quota(need) for need in explanation.quota],
        queue=None
        if explanation.queue is None
        else ExplainedQueue.model_validate(explanation.queue, from_attributes=True),
        suggestions=[_suggestion(suggestion, parts) for suggestion in explanation.suggestions],
        as_of=explained.now,
    )


def _candidate(candidate: JudgedCandidate, parts: PartsRequest, role: Role) -> ExplainedCandidate:
    attempt = candidate.last_attempt
    return ExplainedCandidate(
        offering=_offering(candidate.offering, parts),
        verdict=candidate.verdict,
        message=candidate.message,
        since=candidate.since,
        cool_off_until=candidate.cool_off_until,
        last_attempt=None if attempt is None else _attempt(attempt, role),
    )


def _attempt(attempt: OfferingAttempt, role: Role) -> ExplainedAttempt:
    error = None if attempt.error is None else AttemptError.model_validate(attempt_error(attempt.error, role))
    return ExplainedAttempt(n=attempt.n, error=error, started_at=attempt.created_at, ended_at=attempt.ended_at)


def exclusion_view(group: ExcludedGroup, parts: PartsRequest, *, operator: bool) -> ExplainedExclusion:
    """The offerings that one rule excludes, with prices of a VM with these parts. Only operators see details of a provider account."""
    return ExplainedExclusion(
        code=group.code,
        count=group.count,
        message=group.message,
        nearest=_offering(group.nearest.offering, parts),
        nearest_detail=exclusion_detail(group.nearest, operator=operator),
    )


def _quota(need: QuotaNeed) -> ExplainedQuota:
    return ExplainedQuota(
        resource=need.resource,
        limit=json_limit(need.resource, need.limit),
        used=json_amount(need.resource, need.used),
        reserved=json_amount(need.resource, need.reserved),
        needed=json_amount(need.resource, need.needed),
        free=json_limit(need.resource, need.free),
        fits=need.fits,
    )


def _suggestion(suggestion: Suggestion, parts: PartsRequest) -> ExplainedSuggestion:
    return ExplainedSuggestion(
        code=suggestion.code,
        message=suggestion.message,
        change=dict(suggestion.change),
        offering=_offering(suggestion.offering, parts),
    )


def _offering(offering: Offering, parts: PartsRequest) -> ExplainedOffering:
    key = offering.key
    rate = None if offering.price_per_hour is None else rate_at(offering, parts)
    return ExplainedOffering(
        provider=offering.provider,
        account=key.account,
        region=key.region,
        zone=key.zone,
        instance_type=key.instance_type,
        market=key.market,
        reservation=key.reservation,
        gpu=Gpu.model_validate(type_facts(offering.type)["gpu"]),
        price_per_hour=None if rate is None else rate.total,
        parts=None if rate is None else RateParts.model_validate(rate, from_attributes=True),
    )
