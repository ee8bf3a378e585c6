"""What gpulease does for a lease now, as one sentence with its times."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from app.domain.explanations.candidate_verdicts import CandidateVerdict, PlacementFacts
from app.domain.explanations.explanations import Choice, ExplanationCode, LeaseFacts, NewestAttempt, Situation
from app.domain.explanations.near_misses import describe
from app.domain.explanations.placement_failure import why_exhausted
from app.domain.leases import AttemptState, LeaseState, VmState
from app.domain.reasons import BLOCKED

_OVERDUE = timedelta(seconds=60)

VERDICT_TEXTS: Mapping[CandidateVerdict, tuple[str, str]] = MappingProxyType(
    {
        CandidateVerdict.FREE: ("is free", "are free"),
        CandidateVerdict.LAUNCHING: ("is being launched", "are being launched"),
        CandidateVerdict.REFUSED: ("refused in this pass", "refused in this pass"),
        CandidateVerdict.OVER_QUOTA: ("exceeds the quota", "exceed the quota"),
        CandidateVerdict.REGION_NOT_LISTED: ("is in a region without a listing", "are in regions without a listing"),
        CandidateVerdict.WAITS_FOR_CHEAPER: ("costs much more than one of these", "cost much more than one of these"),
        CandidateVerdict.COOLING_OFF: ("is in cool-off", "are in cool-off"),
        CandidateVerdict.NO_SLOT: ("is a reservation without a free slot", "are reservations without a free slot"),
    }
)
"""What one candidate, and what several candidates, with this verdict have in common."""


def clock_time(moment: datetime, now: datetime) -> str:
    """`12:03:10 UTC`, with the date in front on another day than `now`. Both times are in UTC."""
    form = "%H:%M:%S UTC" if moment.date() == now.date() else "%Y-%m-%d %H:%M UTC"
    return moment.strftime(form)


def find_situation(lease: LeaseFacts, choice: Choice, placement: PlacementFacts) -> Situation:
    """The situation of a lease. Total: every state has a sentence. Its wait ends in the future, or at no known time."""
    situation = _find(lease, choice, placement)
    over = situation.gives_up_at is not None and situation.gives_up_at <= lease.now
    return replace(situation, gives_up_at=None) if over else situation


def _find(lease: LeaseFacts, choice: Choice, placement: PlacementFacts) -> Situation:
    if lease.on_hold and lease.ended_at is None:
        summary = "The installation is on hold; gpulease changes no lease until an operator resumes it."
        return Situation(code=ExplanationCode.ON_HOLD, summary=summary)
    if lease.places:
        return _waiting(lease, choice, placement)
    return _BY_STATE[lease.state](lease, choice)


# --- before a VM exists -------------------------------------------------------------------------------------


_WITHOUT_END = frozenset({ExplanationCode.LAUNCHES_STOPPED, ExplanationCode.REGION_NOT_LISTED})
"""Waits that go on after the lease's `wait_until`."""


def _waiting(lease: LeaseFacts, choice: Choice, placement: PlacementFacts) -> Situation:
    code, text = _wait(lease, choice)
    stopped = code is ExplanationCode.LAUNCHES_STOPPED
    return Situation(
        code=code,
        summary=text,
        since=placement.looking_since,
        next_try_at=None if stopped or lease.claimed else _next_try(lease),
        gives_up_at=None if code in _WITHOUT_END else lease.wait_until,
    )


def _next_try(lease: LeaseFacts) -> datetime | None:
    return None if lease.next_due is None else max(lease.next_due, lease.now)


def _wait(lease: LeaseFacts, choice: Choice) -> tuple[ExplanationCode, str]:
    if lease.launches_stopped:
        return (
            ExplanationCode.LAUNCHES_STOPPED,
            "Operators have stopped all launches; gpulease waits until they resume.",
        )
    if choice.next is not None:
        return _next_candidate(lease, describe(choice.next.offering, lease.request.parts))
    if not choice.judged:
        why = why_exhausted(choice.ranking, [], 0).message
        code = ExplanationCode.NOTHING_FITS
        return code, f"No offering can be used now: {why}; {_again(lease, code)}."
    counts = Counter(candidate.verdict for candidate in choice.judged)
    code = _no_candidate(counts)
    return code, f"{_obstacles(counts)}; {_again(lease, code)}."


def _obstacles(counts: Mapping[CandidateVerdict, int]) -> str:
    total = sum(counts.values())
    parts = [(count, VERDICT_TEXTS[verdict][count > 1]) for verdict, count in sorted(counts.items())]
    if total == 1:
        return f"The only offering that fits {parts[0][1]}"
    if len(parts) == 1:
        return f"All {total} offerings that fit {parts[0][1]}"
    listed = ", ".join(f"{count} {text}" for count, text in parts)
    return f"{total} offerings fit, but none is free now ({listed})"


def _no_candidate(counts: Mapping[CandidateVerdict, int]) -> ExplanationCode:
    if counts.keys() == {CandidateVerdict.OVER_QUOTA}:
        return ExplanationCode.OVER_QUOTA
    if CandidateVerdict.REGION_NOT_LISTED in counts:
        return ExplanationCode.REGION_NOT_LISTED
    return ExplanationCode.NO_CAPACITY


def _next_candidate(lease: LeaseFacts, where: str) -> tuple[ExplanationCode, str]:
    if lease.slot_at is not None and lease.slot_at > lease.now:
        slot = clock_time(lease.slot_at, lease.now)
        return ExplanationCode.RATE_LIMITED, f"gpulease tries {where} at {slot}, in its slot of the rate limit."
    if not lease.claimed and (lease.next_due is None or lease.next_due < lease.now - _OVERDUE):
        return ExplanationCode.OVERDUE, f"gpulease tries {where} next; no worker has started this for over a minute."
    if lease.claimed or lease.next_due is None or lease.next_due <= lease.now:
        return ExplanationCode.TRIES_NEXT, f"gpulease tries {where} now."
    return ExplanationCode.TRIES_NEXT, f"gpulease tries {where} at {clock_time(lease.next_due, lease.now)}."


def _again(lease: LeaseFacts, code: ExplanationCode) -> str:
    due = _next_try(lease)
    when = "now" if lease.claimed or due is None or due <= lease.now else f"at {clock_time(due, lease.now)}"
    if code in _WITHOUT_END:
        return f"gpulease tries again {when}"
    if lease.wait_until <= lease.now:
        return f"gpulease tries again {when} for the last time"
    return f"gpulease tries again {when} and gives up at {clock_time(lease.wait_until, lease.now)}"


def _provisioning(lease: LeaseFacts, _: Choice) -> Situation:
    attempt = _attempt(lease)
    match attempt.state:
        case AttemptState.SETTLING:
            summary = f"The launch of {attempt.place} got no clear answer; gpulease searches for its VM and launches no second one."
            return _attempt_situation(lease, ExplanationCode.OUTCOME_UNKNOWN, summary)
        case AttemptState.KNOWN:
            return _starting(lease, attempt)
        case AttemptState.PLANNED if lease.launches_stopped:
            summary = f"Operators have stopped all launches; gpulease launches {attempt.place} when they resume."
            return Situation(code=ExplanationCode.LAUNCHES_STOPPED, summary=summary, since=attempt.created_at)
    if attempt.failed and attempt.retry_at is not None:
        when = clock_time(attempt.retry_at, lease.now)
        summary = f"The launch of {attempt.place} was not answered; gpulease repeats the same call at {when}."
    else:
        summary = f"gpulease is launching {attempt.place}."
    return _attempt_situation(lease, ExplanationCode.LAUNCHING, summary)


def _attempt_situation(lease: LeaseFacts, code: ExplanationCode, summary: str) -> Situation:
    attempt = _attempt(lease)
    due = None if lease.claimed else _next_try(lease)
    typical = attempt.typical_ready_seconds
    return Situation(
        code=code, summary=summary, since=attempt.created_at, next_try_at=due, typical_ready_seconds=typical
    )


def _starting(lease: LeaseFacts, attempt: NewestAttempt) -> Situation:
    if attempt.vm_state in _ENDING:
        return _ending_vm(attempt)
    known_at = attempt.starting_since or attempt.created_at
    if attempt.vm_state is VmState.QUEUED:
        return Situation(
            code=ExplanationCode.QUEUED_AT_PROVIDER,
            summary=f"{attempt.place} waits in the provider's own queue; gpulease waits until the provider starts it.",
            since=known_at,
        )
    until = known_at + timedelta(seconds=lease.launch_timeout)
    given_up = f"after {clock_time(until, lease.now)} it tries the next candidate"
    return Situation(
        code=ExplanationCode.STARTING,
        summary=f"gpulease waits until the provider has started {attempt.place}; {given_up}.",
        since=known_at,
        gives_up_at=until,
        typical_ready_seconds=attempt.typical_ready_seconds,
    )


# --- with a VM ----------------------------------------------------------------------------------------------

_ENDING = frozenset({VmState.GONE, VmState.ENDING, VmState.STOPPED})


def _booting(lease: LeaseFacts, _: Choice) -> Situation:
    attempt = _attempt(lease)
    if attempt.vm_state in _ENDING:
        return _ending_vm(attempt)
    if attempt.gpu_rebooted_at is not None:
        why = f"gpulease has rebooted the VM {attempt.place} for its GPUs, and waits for a new proof of them"
        return _proving(attempt.gpu_rebooted_at, lease.boot_timeout, why)
    if attempt.proof_awaited_at is not None:
        why = f"The VM {attempt.place} is ready; gpulease waits until it proves its GPUs"
        return _proving(attempt.proof_awaited_at, lease.proof_seconds, why)
    since = lease.running_at or attempt.created_at
    until = since + timedelta(seconds=lease.boot_timeout)
    return Situation(
        code=ExplanationCode.BOOTING,
        summary=f"The VM {attempt.place} runs and boots; gpulease waits until it passes the provider's checks.",
        since=since,
        gives_up_at=until,
        typical_ready_seconds=attempt.typical_ready_seconds,
    )


def _proving(since: datetime, seconds: float, why: str) -> Situation:
    until = since + timedelta(seconds=seconds)
    return Situation(code=ExplanationCode.BOOTING, summary=f"{why}.", since=since, gives_up_at=until)


def _ending_vm(attempt: NewestAttempt) -> Situation:
    summary = f"The VM {attempt.place} ended or did not start; gpulease tries the next candidate once the VM is gone."
    return Situation(code=ExplanationCode.ENDING_VM, summary=summary, since=attempt.created_at)


def _active(lease: LeaseFacts, _: Choice) -> Situation:
    if lease.attempt is not None and lease.attempt.vm_state in _ENDING:
        return _ending_vm(lease.attempt)
    return Situation(code=ExplanationCode.ACTIVE, summary="The lease is active.", since=lease.ready_at)


def _attempt(lease: LeaseFacts) -> NewestAttempt:
    if lease.attempt is None:
        msg = f"a lease is {lease.state} without an attempt"
        raise ValueError(msg)
    return lease.attempt


# --- the end ------------------------------------------------------------------------------------------------


def _releasing(lease: LeaseFacts, _: Choice) -> Situation:
    message = "" if lease.reason is None else lease.reason.message
    why, blocked, obstacle = message.partition(BLOCKED)
    if blocked:
        code = ExplanationCode.RELEASE_BLOCKED
        summary = f"The lease cannot end yet: {obstacle}; gpulease retries without limit."
    else:
        code = ExplanationCode.RELEASING
        cause = f" ({_clause(why)})" if why else ""
        summary = f"The lease is ending{cause}; gpulease waits until the provider confirms that nothing is left."
    next_try = None if lease.claimed else _next_try(lease)
    return Situation(code=code, summary=summary, since=lease.release_requested_at, next_try_at=next_try)


def _ended(lease: LeaseFacts, choice: Choice) -> Situation:
    why = "" if lease.reason is None else f": {_clause(lease.reason.message)}"
    return Situation(
        code=ExplanationCode.ENDED,
        summary=f"The lease has ended{why}{_retry(lease, choice)}.",
        since=lease.ended_at,
        retryable=None if lease.reason is None else lease.reason.retryable,
    )


def _retry(lease: LeaseFacts, choice: Choice) -> str:
    """Whether a failed lease may be requested again. A released lease has no such question."""
    if lease.state is not LeaseState.FAILED:
        return ""
    if choice.next is not None and choice.next.verdict is CandidateVerdict.FREE:
        return f"; the same request would now get {describe(choice.next.offering, lease.request.parts)}"
    if lease.reason is not None and lease.reason.retryable:
        return "; the same request may succeed later"
    return "; the same request does not fit at present"


def _clause(message: str) -> str:
    """A stored message without its full stop, for the middle of a sentence."""
    return message.removesuffix(".")


_BY_STATE: Mapping[LeaseState, Callable[[LeaseFacts, Choice], Situation]] = MappingProxyType(
    {
        LeaseState.QUEUED: _provisioning,
        LeaseState.PROVISIONING: _provisioning,
        LeaseState.BOOTING: _booting,
        LeaseState.ACTIVE: _active,
        LeaseState.RELEASING: _releasing,
        LeaseState.RELEASED: _ended,
        LeaseState.FAILED: _ended,
    }
)
