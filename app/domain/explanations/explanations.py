"""Why a lease is not active yet: what gpulease does now, when it tries next, and which changed request would fit now.

`explain` is pure. It describes what workers do and decides nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial

from app.domain import quotas
from app.domain.explanations.candidate_verdicts import (
    CandidateVerdict,
    JudgedCandidate,
    PlacementFacts,
    is_free,
    judge,
)
from app.domain.explanations.near_misses import ExcludedGroup, NearMisses, Suggestion, suggest
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import AttemptState, LeaseState, VmState
from app.domain.placement import Ranking
from app.domain.reasons import Reason

MOST_CANDIDATES = 20
"""An explanation contains at most this many candidates, the best ones."""


class ExplanationCode(StrEnum):
    """What a lease waits for, or where it is. The list may grow.

    `on_hold`: the installation is on hold. `launches_stopped`: operators have stopped launches. `tries_next`: the next
    try follows. `rate_limited`: it waits for the provider's rate limit. `overdue`: no worker has come for a minute.
    `no_capacity`, `over_quota`, `region_not_listed`: no candidate is free. `nothing_fits`: there is no candidate.
    `launching`: an attempt is in progress. `outcome_unknown`: gpulease searches for the VM of a launch without an answer.
    `queued_at_provider`: it waits in the provider's own queue. `starting`, `booting`: a VM exists. `ending_vm`: that VM ends, and a replacement follows. `active`: usable.
    `releasing`, `release_blocked`, `ended`: the end of the lease.
    """

    ON_HOLD = "on_hold"
    LAUNCHES_STOPPED = "launches_stopped"
    TRIES_NEXT = "tries_next"
    RATE_LIMITED = "rate_limited"
    OVERDUE = "overdue"
    NO_CAPACITY = "no_capacity"
    OVER_QUOTA = "over_quota"
    REGION_NOT_LISTED = "region_not_listed"
    NOTHING_FITS = "nothing_fits"
    LAUNCHING = "launching"
    OUTCOME_UNKNOWN = "outcome_unknown"
    QUEUED_AT_PROVIDER = "queued_at_provider"
    STARTING = "starting"
    BOOTING = "booting"
    ENDING_VM = "ending_vm"
    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASE_BLOCKED = "release_blocked"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Counts of queued leases, and the lease's position in the order of their next tries. Positions count from 1."""

    waiting: int
    position: int
    waiting_in_tenant: int
    position_in_tenant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNeed:
    """A resource that the best candidate needs. `reserved`: by this lease. `free`: for this lease; None: any amount."""

    resource: str
    limit: Decimal | None
    used: Decimal
    reserved: Decimal
    needed: Decimal
    free: Decimal | None
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestAttempt:
    """The lease's newest attempt. `place`: the offering in words. `typical_ready_seconds`: from launch to ready there.

    `starting_since`: when the provider accepted the launch, or when its VM entered or left the provider's queue.
    `proof_awaited_at`: since when its ready VM must prove its GPUs. `gpu_rebooted_at`: when the VM was rebooted for them.
    """

    place: str
    state: AttemptState
    live: bool
    vm_state: VmState | None
    created_at: datetime
    starting_since: datetime | None
    retry_at: datetime | None
    failed: bool
    typical_ready_seconds: float | None
    proof_awaited_at: datetime | None = None
    gpu_rebooted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """The stored facts about a lease. `next_due`: when a worker takes it next. `claimed`: a worker has it now.

    `launch_timeout`, `proof_seconds` and `boot_timeout` are in seconds.
    """

    now: datetime
    state: LeaseState
    reason: Reason | None
    request: LeaseRequest
    wait_until: datetime
    running_at: datetime | None
    ready_at: datetime | None
    release_requested_at: datetime | None
    ended_at: datetime | None
    attempts_count: int
    next_due: datetime | None
    claimed: bool
    slot_at: datetime | None
    on_hold: bool
    launches_stopped: bool
    attempt: NewestAttempt | None
    launch_timeout: float
    boot_timeout: float
    proof_seconds: float = 60.0

    @property
    def places(self) -> bool:
        """Whether the next step of the lease is to choose an offering."""
        no_attempt = self.attempt is None or not self.attempt.live
        return no_attempt and self.state in (LeaseState.QUEUED, LeaseState.PROVISIONING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What gpulease does for a lease now: one sentence and its times.

    `gives_up_at`: a later time, at which the current wait ends. None: no time ends it, or it is over. `retryable`: of an ended lease, whether the same request may succeed later.
    """

    code: ExplanationCode
    summary: str
    since: datetime | None = None
    next_try_at: datetime | None = None
    gives_up_at: datetime | None = None
    typical_ready_seconds: float | None = None
    retryable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a lease. `candidates`: the best ones of `candidates_count`, in the order of placement.

    All parts but the situation are empty where no offering has to be chosen. `queue` is None outside the queue.
    """

    situation: Situation
    candidates: tuple[JudgedCandidate, ...] = ()
    candidates_count: int = 0
    excluded: tuple[ExcludedGroup, ...] = ()
    quota: tuple[QuotaNeed, ...] = ()
    queue: QueuePlace | None = None
    suggestions: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The judged candidates of a ranking. `first_pass`: no offering has been tried yet, so cool-offs only delay."""

    ranking: Ranking
    judged: tuple[JudgedCandidate, ...]
    first_pass: bool

    @property
    def next(self) -> JudgedCandidate | None:
        """The candidate that the next try takes. None: no candidate is free."""
        free = (candidate for candidate in self.judged if candidate.verdict is CandidateVerdict.FREE)
        return next(free, self._cooling() if self.first_pass else None)

    def _cooling(self) -> JudgedCandidate | None:
        cooling = (candidate for candidate in self.judged if candidate.verdict is CandidateVerdict.COOLING_OFF)
        return next(cooling, None)


def choose(facts: PlacementFacts, ranking: Ranking, *, first_pass: bool) -> Choice:
    """Judges every candidate of a ranking."""
    return Choice(ranking=ranking, judged=tuple(judge(facts, ranking.candidates)), first_pass=first_pass)


def explain(
    lease: LeaseFacts,
    situation: Situation,
    choice: Choice,
    placement: PlacementFacts,
    near: NearMisses,
    queue: QueuePlace | None,
) -> Explanation:
    """Adds candidates, exclusions, quota and suggestions to the situation of a lease (`app.domain.explanations.situation`)."""
    if not (lease.places or lease.state in (LeaseState.PROVISIONING, LeaseState.FAILED)):
        return Explanation(situation=situation)
    return Explanation(
        situation=situation,
        candidates=choice.judged[:MOST_CANDIDATES],
        candidates_count=len(choice.judged),
        excluded=near.groups,
        quota=_quota_needs(placement, choice),
        queue=queue if lease.state is LeaseState.QUEUED else None,
        suggestions=_suggestions(lease, choice, placement, near),
    )


def _suggestions(
    lease: LeaseFacts, choice: Choice, placement: PlacementFacts, near: NearMisses
) -> tuple[Suggestion, ...]:
    if lease.on_hold or lease.launches_stopped or choice.next is not None:
        return ()
    if not (lease.places or lease.state is LeaseState.FAILED):
        return ()
    candidates = choice.ranking.candidates
    return suggest(lease.request, near, candidates, partial(is_free, placement), placement.now)


def _quota_needs(placement: PlacementFacts, choice: Choice) -> tuple[QuotaNeed, ...]:
    if not choice.judged:
        return ()
    offering, quota, parts = (choice.next or choice.judged[0]).offering, placement.quota, placement.term.parts
    short = {shortage.resource for shortage in quota.shortages(offering, parts)}
    return tuple(
        QuotaNeed(
            resource=resource,
            limit=quota.limits.get(resource),
            used=quota.used.get(resource, Decimal(0)),
            reserved=quota.reserved.get(resource, Decimal(0)),
            needed=needed,
            free=quota.free(resource),
            fits=resource not in short,
        )
        for resource, needed in sorted(quotas.amounts(offering, parts).items())
    )
