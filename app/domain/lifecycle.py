"""The protocol's decisions: from what is known of a lease and its newest attempt to the one next step.

`decide` is total and pure. A worker executes the step, loads the lease again and asks anew, until it may rest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.inventory import EMPTY_LISTINGS
from app.domain.lease_requests import OnInterruption
from app.domain.leases import Attempt, AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.provider_messages import provider_words, public_code, why_vm_ended
from app.domain.reasons import Origin, Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The protocol's durations, in seconds. Meaning and defaults: app.settings."""

    unknown_retry: float
    settle: float
    settle_gap: float
    launch_timeout: float
    boot_timeout: float
    max_backoff: float
    not_found_grace: float
    deadline_grace: float


# --- steps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before `until`; None: before somebody wakes the lease."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Place:
    """Choose the next offering and store the intent (T2)."""


@dataclass(frozen=True, slots=True)
class Send:
    """Check that it is still wanted, and send the create call from the stored parameters (T3 to T5)."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The outcome stays unknown or is no longer wanted: from here only look, never create."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look by token for what the attempt may have created; adopt it, or write down that nothing was seen."""


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """The attempt is over: never sent, or its VM confirmed gone. Its billing ends."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the provider to end the VM (again)."""


@dataclass(frozen=True, slots=True)
class Reboot:
    """Ask the provider for the reboot that somebody wants."""


@dataclass(frozen=True, slots=True)
class Verify:
    """The VM is missing from a complete listing: ask for it directly before believing it."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Go on to `state`: booting or active."""

    state: LeaseState


@dataclass(frozen=True, slots=True)
class RenewDeadline:
    """Write the deadline tag that the dead-man switch goes by: the expiry was moved since it was written."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to the queue to be replaced; the old VM is confirmed dead."""


@dataclass(frozen=True, slots=True)
class BeginRelease:
    """End the lease for `reason`: `desired` becomes end."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left that costs money: terminal."""


_LOOK_AGAIN = timedelta(seconds=2)
_TERM_IN_DOUBT_PAUSE = timedelta(seconds=30)
"""So long rests a lease that would have expired, but for the tag of its VM; whoever reads the tag wakes it."""

Step = (
    Rest
    | Place
    | Send
    | Settle
    | Look
    | CloseAttempt
    | Terminate
    | Verify
    | Enter
    | RenewDeadline
    | Requeue
    | BeginRelease
    | Finish
    | Reboot
)


# --- decisions --------------------------------------------------------------------------------------------


def decide(lease: Lease, now: datetime, timing: Timing) -> Step:
    """The next step of a lease. The executor of a step makes progress or sets a time to come back."""
    if lease.terminal:
        return Rest(None)
    if lease.desired is Desired.RUN:
        cause = cause_to_end(lease, now, timing)
        if cause is not None:
            return BeginRelease(cause)
    step = _DECIDERS[lease.state](lease, now, timing)
    return bounded(lease, step, now) if isinstance(step, Rest) else step


def bounded(lease: Lease, rest: Rest, now: datetime) -> Rest:
    """The rest of a lease that is wanted ends with its time at the latest.

    A lease whose time is over rests only while its term is in doubt: for a while, or for as long as a step asks.
    """
    if lease.desired is Desired.END or lease.terminal:
        return rest
    if not lease.is_expired(now):
        return Rest(lease.expires_at if rest.until is None else min(rest.until, lease.expires_at))
    return rest if rest.until is not None and rest.until > now else Rest(now + _TERM_IN_DOUBT_PAUSE)


def cause_to_end(lease: Lease, now: datetime, timing: Timing) -> Reason | None:
    """Why a lease that is wanted must end all the same, or None."""
    if lease.is_expired(now) and lease.may_expire:
        return Reason(ReasonCode.EXPIRED, "the lease's time is over")
    attempt = lease.attempt
    if attempt is None or attempt.state is not AttemptState.KNOWN:
        return None
    if lease.state in (LeaseState.BOOTING, LeaseState.ACTIVE):
        lost = _cause_of_loss(attempt)
        if lost is not None and not _replaceable(lease, attempt):
            return lost
    return _stage_timeout(lease, attempt, now, timing)


def _cause_of_loss(attempt: Attempt) -> Reason | None:
    if attempt.vm_state not in (VmState.GONE, VmState.ENDING, VmState.STOPPED):
        return None
    why = attempt.vm_reason or {}
    words = provider_words(why)
    if why.get("interrupted"):
        said = public_code(why.get("code")) or "no reason given"
        return Reason(ReasonCode.INTERRUPTED, f"the provider took the spot VM back: {said}", Origin.PROVIDER, words)
    said = why_vm_ended(why)
    return Reason(ReasonCode.INSTANCE_LOST, f"the VM was ended outside gpulease: {said}", Origin.PROVIDER, words)


def _replaceable(lease: Lease, attempt: Attempt) -> bool:
    interrupted = bool((attempt.vm_reason or {}).get("interrupted"))
    return interrupted and lease.on_interruption is OnInterruption.REPLACE


def _stage_timeout(lease: Lease, attempt: Attempt, now: datetime, timing: Timing) -> Reason | None:
    """Judged by what was seen after the time was over: nobody's VM ends because we were away and did not look.

    Nor because we looked and were slow to act on it: a VM that runs has started, however long its lease was not moved.
    """
    if attempt.watched_at is None:
        return None
    seen = min(now, attempt.watched_at)
    started = attempt.vm_state is VmState.RUNNING
    ready = started and attempt.ready
    if lease.state is LeaseState.PROVISIONING and not started and _after(attempt.known_at, timing.launch_timeout, seen):
        return Reason(ReasonCode.LAUNCH_TIMEOUT, f"the VM did not start within {timing.launch_timeout:.0f} s")
    if lease.state is LeaseState.BOOTING and not ready and _after(lease.running_at, timing.boot_timeout, seen):
        return Reason(ReasonCode.BOOT_TIMEOUT, f"the VM was not ready within {timing.boot_timeout:.0f} s")
    return None


def _queued(lease: Lease, now: datetime, timing: Timing) -> Step:
    return _with_attempt(lease, now, timing)


def _provisioning(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or attempt.state is not AttemptState.KNOWN:
        return _with_attempt(lease, now, timing)
    match attempt.vm_state:
        case VmState.GONE | VmState.ENDING | VmState.STOPPED:
            return _until_gone(attempt, now, timing)
        case VmState.RUNNING:
            return Enter(LeaseState.BOOTING)
        case VmState.ABSENT:
            return _verify(attempt, now)
        case _:
            return _deadline_or_rest(lease, now, timing, _judged(attempt.known_at, timing.launch_timeout, now))


def _with_attempt(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or not attempt.live:
        return Place()
    if attempt.state is AttemptState.SETTLING:
        return _settling(attempt, now)
    if attempt.retry_at is not None and attempt.retry_at > now:
        return Rest(attempt.retry_at)
    if _after(attempt.unknown_since, timing.unknown_retry, now):
        return Settle()
    return Send()


def _booting(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = _known(lease)
    if _taken_back(attempt):
        return _until_gone(attempt, now, timing)
    if attempt.vm_state is VmState.ABSENT:
        return _verify(attempt, now)
    if attempt.ready and attempt.vm_state is VmState.RUNNING:
        return Enter(LeaseState.ACTIVE)
    return _deadline_or_rest(lease, now, timing, _judged(lease.running_at, timing.boot_timeout, now))


def _active(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = _known(lease)
    if _taken_back(attempt):
        return _until_gone(attempt, now, timing)
    if attempt.vm_state is VmState.ABSENT:
        return _verify(attempt, now)
    if lease.reboot_requested_at is None:
        return _deadline_or_rest(lease, now, timing, None)
    if attempt.retry_at is None or attempt.retry_at <= now:
        return Reboot()
    return _deadline_or_rest(lease, now, timing, attempt.retry_at)


def deadline(lease: Lease, timing: Timing) -> datetime:
    """When the dead-man switch may end the lease's VM: the expiry and a grace."""
    return lease.expires_at + timedelta(seconds=timing.deadline_grace)


def _deadline_or_rest(lease: Lease, now: datetime, timing: Timing, until: datetime | None) -> Step:
    """Renews a deadline tag that is behind, else rests until `until` or the expiry.

    Not while the term is in doubt: the tag may tell what the database has lost.
    """
    if lease.deadline_applied == deadline(lease, timing) or lease.term_in_doubt:
        return Rest(until)
    retry_at = _known(lease).retry_at
    if retry_at is None or retry_at <= now:
        return RenewDeadline()
    return Rest(retry_at if until is None else min(retry_at, until))


def _taken_back(attempt: Attempt) -> bool:
    return attempt.state is not AttemptState.KNOWN or attempt.vm_state in (
        VmState.GONE,
        VmState.ENDING,
        VmState.STOPPED,
    )


def _releasing(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or not attempt.live:
        return Finish() if lease.unclean_attempts == 0 else Rest(None)
    match attempt.state:
        case AttemptState.PLANNED:
            return CloseAttempt()
        case AttemptState.SENT:
            return Settle()
        case AttemptState.SETTLING:
            return _settling(attempt, now)
        case _:
            return _until_gone(attempt, now, timing)


def _until_gone(attempt: Attempt, now: datetime, timing: Timing) -> Step:
    """Ends a VM and closes the attempt once the provider confirms; then the lease may be replaced.

    Billing ends with the VM. What is left over (`clean`) is the watch's business, and only a terminal lease waits for it.
    """
    if not attempt.live:
        return Requeue()
    if attempt.vm_state is VmState.GONE:
        return CloseAttempt()
    if attempt.vm_state is VmState.ABSENT and attempt.terminate_sent_at is not None:
        return _verify(attempt, now)
    due = _terminate_due(attempt, timing)
    if due is None or due <= now:
        return Terminate()
    return Rest(due)


def _terminate_due(attempt: Attempt, timing: Timing) -> datetime | None:
    """When to ask again: 5 s after the first time, doubling up to the longest back-off."""
    if attempt.retry_at is not None:
        return attempt.retry_at
    if attempt.terminate_sent_at is None:
        return None
    return attempt.terminate_sent_at + timedelta(seconds=backoff(attempt.terminate_tries, timing.max_backoff))


def backoff(tries: int, longest: float, *, first: float = 5.0) -> float:
    """Seconds before the next try after `tries` tries (1 or more): doubling from `first`."""
    return float(min(longest, first * 2 ** min(max(tries - 1, 0), 16)))


def _settling(attempt: Attempt, now: datetime) -> Step:
    """Dead only when enough time passed since the last send, and two complete listings and one direct get saw nothing."""
    if attempt.retry_at is not None and attempt.retry_at > now:
        return Rest(attempt.retry_at)
    return Look()


def settled(attempt: Attempt, now: datetime, timing: Timing) -> bool:
    """Whether a direct get that shows nothing at `now` completes the proof that an attempt created nothing."""
    if attempt.last_sent_at is None or attempt.last_empty_listing_at is None:
        return False
    return (
        _after(attempt.last_sent_at, timing.settle, now)
        and attempt.empty_listings >= EMPTY_LISTINGS
        and _after(attempt.last_empty_listing_at, timing.settle_gap, now)
    )


def may_appear_until(
    lease: Lease, attempt: Attempt, timing: Timing, *, last_seen: datetime | None, end_accepted: bool
) -> datetime | None:
    """How long a known VM may still appear that neither a complete listing nor a direct read shows; None: it is gone.

    A fresh one may not show yet. One that was seen may be missing from an answer or two, but not for `settle_gap`;
    and not at all once it was to end, nor when the provider knew it as it accepted that (`end_accepted`).
    """
    was_seen = lease.running_at is not None or attempt.vm_reason is not None
    if end_accepted or attempt.known_at is None or (was_seen and attempt.terminate_sent_at is not None):
        return None
    unknown = attempt.known_at + timedelta(seconds=timing.not_found_grace)
    if not was_seen:
        return unknown
    seen_at = max(at for at in (attempt.known_at, lease.running_at, last_seen) if at is not None)
    return min(unknown, seen_at + timedelta(seconds=timing.settle_gap))


def _verify(attempt: Attempt, now: datetime) -> Step:
    if attempt.retry_at is not None and attempt.retry_at > now:
        return Rest(attempt.retry_at)
    return Verify()


def _known(lease: Lease) -> Attempt:
    if lease.attempt is None:
        msg = f"lease {lease.id} is {lease.state} without an attempt"
        raise ValueError(msg)
    return lease.attempt


def _after(since: datetime | None, seconds: float, now: datetime) -> bool:
    return since is not None and since + timedelta(seconds=seconds) <= now


def _judged(since: datetime | None, seconds: float, now: datetime) -> datetime | None:
    """When a stage's time-out is to be judged: when it is over, and then again until somebody has looked at the VM."""
    if since is None:
        return None
    over = since + timedelta(seconds=seconds)
    return over if over > now else now + _LOOK_AGAIN


_DECIDERS: dict[LeaseState, Callable[[Lease, datetime, Timing], Step]] = {
    LeaseState.QUEUED: _queued,
    LeaseState.PROVISIONING: _provisioning,
    LeaseState.BOOTING: _booting,
    LeaseState.ACTIVE: _active,
    LeaseState.RELEASING: _releasing,
}
