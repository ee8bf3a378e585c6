"""The protocol's decisions: from the facts about a lease and its newest attempt to the one next step.

`decide` is total and pure. A worker executes the step, loads the lease again and calls `decide` again, until it rests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from app.domain.gpus.protocol import GpuStep, failing_health, failure_step, proof_step
from app.domain.idleness import IDLE_PERCENT
from app.domain.inventory import EMPTY_LISTINGS
from app.domain.lease_requests import OnGpuFailure, OnInterruption
from app.domain.leases import Attempt, AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.money import format_money
from app.domain.provider_messages import provider_words, public_code, why_vm_ended
from app.domain.reasons import SUSPENDED, Origin, Reason, ReasonCode
from app.domain.stopped_vms import confirm_at, is_unconfirmed

LARGE_GPU_COUNT = 8
"""VMs with this number of GPUs or more fill a whole host, bare metal among them. They boot more slowly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The protocol's durations, in seconds. Meaning and defaults: app.settings."""

    unknown_retry: float
    settle: float
    settle_gap: float
    launch_timeout: float
    boot_timeout: float
    boot_timeout_large: float
    max_backoff: float
    not_found_grace: float
    deadline_grace: float
    sample: float
    proof: float

    def boot_seconds(self, gpu_count: int) -> float:
        """The time from running to ready that a VM with this number of GPUs may take."""
        return self.boot_timeout_large if gpu_count >= LARGE_GPU_COUNT else self.boot_timeout


# --- steps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before `until`. None: nothing to do before somebody wakes the lease."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Place:
    """Choose the next offering and store the intent."""


@dataclass(frozen=True, slots=True)
class Send:
    """Check that the VM is still wanted, and send the create call from the stored parameters."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The outcome stays unknown or is no longer wanted: from now on look for the VM, never create one."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look by token for a VM that the attempt may have created. Adopt the VM, or record that none was seen."""


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """The attempt is over: it was never sent, or its VM is confirmed gone. Its billing ends."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the provider to end the VM (again)."""


@dataclass(frozen=True, slots=True)
class Reboot:
    """Ask the provider for the requested reboot."""


@dataclass(frozen=True, slots=True)
class Verify:
    """One answer alone does not show the VM, or shows it as stopped: confirm by a direct get before acting on it."""


@dataclass(frozen=True, slots=True)
class Attach:
    """Attach the lease's volumes to the VM that runs, or see whether the cloud shows them attached."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Go on to `state`: booting or active."""

    state: LeaseState


@dataclass(frozen=True, slots=True)
class RenewDeadline:
    """Write the deadline tag that the dead-man switch reads: the expiry changed since the tag was written."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Return the lease to the queue for a replacement VM. The old VM is confirmed dead."""


@dataclass(frozen=True, slots=True)
class BeginRelease:
    """End the lease for `reason`: `desired` becomes end."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left that costs money: terminal."""


_LOOK_AGAIN = timedelta(seconds=2)
_AWAIT_POOL = timedelta(seconds=30)
"""A member of a group rests until its group has a pool and wakes it. So this rest ends by itself only after a bug."""
_TERM_IN_DOUBT_PAUSE = timedelta(seconds=30)
"""The rest of a lease that cannot expire before its VM's tag is read. The tag's reader wakes the lease."""

Step = (
    Rest
    | Place
    | Send
    | Settle
    | Look
    | CloseAttempt
    | Terminate
    | Verify
    | Attach
    | Enter
    | RenewDeadline
    | Requeue
    | BeginRelease
    | Finish
    | Reboot
    | GpuStep
)


# --- decisions --------------------------------------------------------------------------------------------


def decide(lease: Lease, now: datetime, timing: Timing) -> Step:
    """The next step of a lease. The executor of a step makes progress or sets the time of the next attempt."""
    if lease.terminal:
        return Rest(None)
    if lease.desired is Desired.RUN:
        cause = cause_to_end(lease, now, timing)
        if cause is not None:
            return BeginRelease(cause)
    retreats = lease.retreats and lease.desired is Desired.RUN
    step = _retreating(lease, now, timing) if retreats else _DECIDERS[lease.state](lease, now, timing)
    if lease.desired is Desired.RUN and not lease.tenant_active and _leads_to_vm(lease, step):
        return BeginRelease(SUSPENDED)
    return bounded(lease, step, now) if isinstance(step, Rest) else step


def _leads_to_vm(lease: Lease, step: Step) -> bool:
    """Whether the lease has no VM and waits for one, or would be sent another one."""
    return lease.state is LeaseState.QUEUED or isinstance(step, Place | Send | Requeue)


def bounded(lease: Lease, rest: Rest, now: datetime) -> Rest:
    """The rest of a wanted lease ends at the lease's effective end at the latest, or at the end of its reservation.

    A lease past its end rests only while its term is in doubt: until the time that a step gives, else for a fixed pause.
    """
    if lease.desired is Desired.END or lease.terminal:
        return rest
    if lease.ends_at > now:
        return Rest(min(until for until in (rest.until, lease.ends_at, lease.reserved_until) if until is not None))
    return rest if rest.until is not None and rest.until > now else Rest(now + _TERM_IN_DOUBT_PAUSE)


def cause_to_end(lease: Lease, now: datetime, timing: Timing) -> Reason | None:
    """Why a wanted lease must end nevertheless, or None."""
    if lease.is_expired(now) and lease.may_expire:
        return Reason(ReasonCode.EXPIRED, "the lease's time is over")
    if lease.max_cost is not None and lease.has_reached_cap(now) and lease.may_expire:
        return spend_cap_reached(lease.max_cost)
    if lease.reserved_until is not None and lease.reserved_until <= now:
        return Reason(ReasonCode.RESERVATION_ENDED, "the reservation that the VM runs in ends")
    attempt = lease.attempt
    if attempt is None or attempt.state is not AttemptState.KNOWN or lease.rejected_for is not None:
        return None
    return _cause_of_vm(lease, attempt, now, timing)


def _cause_of_vm(lease: Lease, attempt: Attempt, now: datetime, timing: Timing) -> Reason | None:
    """Why a wanted lease must end for what its VM does by itself."""
    if lease.state in (LeaseState.BOOTING, LeaseState.ACTIVE):
        lost = _cause_of_loss(attempt)
        if lost is not None and not _replaceable(lease, attempt):
            return lost
    timeout = _boot_timeout(lease, attempt, now, timing)
    return _gpu_failure(lease) or timeout or _idle(lease, attempt, now, timing)


def _gpu_failure(lease: Lease) -> Reason | None:
    health = failing_health(lease)
    if lease.state is not LeaseState.ACTIVE or health is None or lease.request.on_gpu_failure is not OnGpuFailure.END:
        return None
    what = health.findings[0].message if health.findings else "no finding is known"
    return Reason(ReasonCode.GPU_FAILED, f"a GPU failed: {what}")


def spend_cap_reached(max_cost: Decimal) -> Reason:
    """The reason of a lease whose cost has reached its spend cap."""
    return Reason(ReasonCode.SPEND_CAP, f"the cost has reached max_cost, {format_money(max_cost)} USD")


def _cause_of_loss(attempt: Attempt) -> Reason | None:
    if attempt.vm_state not in (VmState.GONE, VmState.ENDING, VmState.STOPPED) or is_unconfirmed(attempt, ran=True):
        return None
    why = attempt.vm_reason or {}
    words = provider_words(why)
    if why.get("interrupted"):
        code = public_code(why.get("code")) or "no reason given"
        return Reason(ReasonCode.INTERRUPTED, f"the provider took the spot VM back: {code}", Origin.PROVIDER, words)
    cause = why_vm_ended(why)
    return Reason(ReasonCode.INSTANCE_LOST, f"the VM was ended outside gpulease: {cause}", Origin.PROVIDER, words)


def _replaceable(lease: Lease, attempt: Attempt) -> bool:
    if lease.membership is not None:
        return lease.membership.replaces
    interrupted = bool((attempt.vm_reason or {}).get("interrupted"))
    return interrupted and lease.on_interruption is OnInterruption.REPLACE


def _boot_timeout(lease: Lease, attempt: Attempt, now: datetime, timing: Timing) -> Reason | None:
    """The VM was not ready in time.

    A VM that was observed late has started: it does not end because its lease was not processed for long.
    """
    seconds = timing.boot_seconds(attempt.gpu_count)
    since = attempt.gpu_rebooted_at or lease.running_at
    if lease.state is not LeaseState.BOOTING or not _seen_after(since, seconds, attempt, now):
        return None
    if lease.awaits_volumes:
        return Reason(ReasonCode.BOOT_TIMEOUT, f"the volumes were not attached to the VM within {seconds:.0f} s")
    return (
        None if lease.vm_is_ready else Reason(ReasonCode.BOOT_TIMEOUT, f"the VM was not ready within {seconds:.0f} s")
    )


def _idle(lease: Lease, attempt: Attempt, now: datetime, timing: Timing) -> Reason | None:
    """All GPUs of a running VM were idle for as long as the lease's rule allows. Without recent samples nothing ends.

    A member whose group is not formed yet waits for the others: its job cannot have started.
    """
    idleness = None if lease.membership is not None and lease.membership.forming else lease.idleness
    if lease.state is not LeaseState.ACTIVE or attempt.vm_state is not VmState.RUNNING or not lease.may_expire:
        return None
    if idleness is None or idleness.ends_at is None or not idleness.is_idle(now, timing.sample):
        return None
    seconds = idleness.rule.after_seconds
    return Reason(ReasonCode.IDLE, f"all GPUs were at {IDLE_PERCENT} % or less for {seconds} s in a row")


def _seen_after(since: datetime | None, seconds: float, attempt: Attempt, now: datetime) -> bool:
    """Whether a time-out counts: a watch pass after its end still saw the VM unready.

    No VM ends because the workers were down and did not observe it.
    """
    return attempt.watched_at is not None and _after(since, seconds, min(now, attempt.watched_at))


def _queued(lease: Lease, now: datetime, timing: Timing) -> Step:
    return _with_attempt(lease, now, timing)


def _provisioning(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or attempt.state is not AttemptState.KNOWN:
        return _with_attempt(lease, now, timing)
    match attempt.vm_state:
        case VmState.GONE | VmState.ENDING | VmState.STOPPED:
            doubtful = is_unconfirmed(attempt, ran=False)
            return _confirm_stop(attempt, now, timing) if doubtful else _until_gone(attempt, now, timing)
        case VmState.ABSENT:
            return _verify(attempt, now)
        case _ if _given_up(attempt, now, timing):
            return _until_gone(attempt, now, timing)
        case VmState.RUNNING:
            return Enter(LeaseState.BOOTING)
        case _:
            queued = attempt.vm_state is VmState.QUEUED
            overdue_at = None if queued else _judged(attempt.starting_since, timing.launch_timeout, now)
            return _deadline_or_rest(lease, now, timing, overdue_at)


def _given_up(attempt: Attempt, now: datetime, timing: Timing) -> bool:
    """Whether the VM was pending for too long. gpulease ends it, even if it starts now, and tries the next candidate."""
    if attempt.terminate_sent_at is not None:
        return True
    overdue = _seen_after(attempt.starting_since, timing.launch_timeout, attempt, now)
    return overdue and attempt.vm_state not in (VmState.RUNNING, VmState.QUEUED)


def did_not_start(lease: Lease, timing: Timing) -> bool:
    """Whether gpulease ended a wanted VM because it was pending for too long.

    gpulease also ends a VM that ends by itself, but as soon as that is seen.
    """
    attempt = lease.attempt
    if lease.state is not LeaseState.PROVISIONING or attempt is None or attempt.terminate_sent_at is None:
        return False
    return _after(attempt.starting_since, timing.launch_timeout, attempt.terminate_sent_at)


def _with_attempt(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or not attempt.live:
        return Place() if lease.may_be_placed else Rest(now + _AWAIT_POOL)
    if attempt.state is AttemptState.SETTLING:
        return _settling(attempt, now)
    if attempt.retry_at is not None and attempt.retry_at > now:
        return Rest(attempt.retry_at)
    if _after(attempt.unknown_since, timing.unknown_retry, now):
        return Settle()
    return Send()


def _booting(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = _known(lease)
    lost = _without_vm(lease, attempt, now, timing)
    if lost is not None:
        return lost
    seconds = timing.boot_seconds(attempt.gpu_count)
    since = attempt.gpu_rebooted_at or lease.running_at
    if lease.awaits_volumes:
        if attempt.retry_at is None or attempt.retry_at <= now:
            return Attach()
        overdue_at = _judged(since, seconds, now)
        return Rest(attempt.retry_at if overdue_at is None else min(attempt.retry_at, overdue_at))
    if lease.vm_is_ready:
        step = proof_step(lease, attempt, now, proof_seconds=timing.proof, boot_seconds=seconds)
        if step is None:
            return Enter(LeaseState.ACTIVE)
        return _deadline_or_rest(lease, now, timing, step) if isinstance(step, datetime) else step
    return _deadline_or_rest(lease, now, timing, _judged(since, seconds, now))


def _active(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = _known(lease)
    lost = _without_vm(lease, attempt, now, timing)
    if lost is not None:
        return lost
    step = failure_step(lease, attempt, now)
    if step is not None and not isinstance(step, datetime):
        return step
    if lease.reboot_requested_at is None:
        return _deadline_or_rest(lease, now, timing, step)
    if attempt.retry_at is None or attempt.retry_at <= now:
        return Reboot()
    return _deadline_or_rest(lease, now, timing, attempt.retry_at)


def deadline(lease: Lease, timing: Timing) -> datetime:
    """When the dead-man switch may end the lease's VM: the effective end plus a grace period."""
    return lease.ends_at + timedelta(seconds=timing.deadline_grace)


def _deadline_or_rest(lease: Lease, now: datetime, timing: Timing, until: datetime | None) -> Step:
    """Renews an outdated deadline tag, else rests until `until` or the effective end.

    While the term is in doubt the tag stays: it may hold an extension that the database has lost.
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


def _without_vm(lease: Lease, attempt: Attempt, now: datetime, timing: Timing) -> Step | None:
    """The step of a lease whose VM is rejected, or seems to be lost. None: the lease has its VM."""
    if lease.rejected_for is None and is_unconfirmed(attempt, ran=True):
        return _confirm_stop(attempt, now, timing)
    if _taken_back(attempt) or lease.rejected_for is not None:
        return _until_gone(attempt, now, timing)
    return _verify(attempt, now) if attempt.vm_state is VmState.ABSENT else None


def _retreating(lease: Lease, now: datetime, timing: Timing) -> Step:
    """Ends the VM of a member whose group gives its pool up. Nothing is left of it when the member is in the queue again."""
    attempt = lease.attempt
    if attempt is None or not attempt.live:
        return Requeue()
    return _ended(attempt, now, timing)


def _releasing(lease: Lease, now: datetime, timing: Timing) -> Step:
    attempt = lease.attempt
    if attempt is None or not attempt.live:
        return Finish() if lease.unclean_attempts == 0 else Rest(None)
    return _ended(attempt, now, timing)


def _ended(attempt: Attempt, now: datetime, timing: Timing) -> Step:
    """Ends a live attempt, whatever its state is."""
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
    """Ends a VM and closes the attempt once the provider confirms. Then the lease may get a replacement.

    Billing ends with the VM. The watch removes leftover resources (`clean`); only the last transition waits for them.
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
    """When to send the terminate call again: 5 s after the first one, doubling up to the longest back-off."""
    if attempt.retry_at is not None:
        return attempt.retry_at
    if attempt.terminate_sent_at is None:
        return None
    return attempt.terminate_sent_at + timedelta(seconds=backoff(attempt.terminate_tries, timing.max_backoff))


def backoff(tries: int, longest: float, *, first: float = 5.0) -> float:
    """Seconds before the next try after `tries` tries (1 or more): doubling from `first`."""
    return float(min(longest, first * 2 ** min(max(tries - 1, 0), 16)))


def _settling(attempt: Attempt, now: datetime) -> Step:
    """The attempt is dead when enough time passed since the last send and no VM was seen.

    Two complete listings and one direct get must each show no VM.
    """
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
    """Until when a known VM may still appear that neither a complete listing nor a direct get shows. None: it is gone.

    A new VM may not be visible yet. A VM that was seen may be missing from an answer or two, but not for `settle_gap`.
    There is no grace period once the VM's termination was sent, nor when the provider accepted it (`end_accepted`).
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


def _confirm_stop(attempt: Attempt, now: datetime, timing: Timing) -> Step:
    """Reads the VM once more, apart in time from the answer that showed it as stopped."""
    at = confirm_at(attempt, timing.settle_gap)
    return Rest(at) if at is not None and at > now else _verify(attempt, now)


def _known(lease: Lease) -> Attempt:
    if lease.attempt is None:
        msg = f"lease {lease.id} is {lease.state} without an attempt"
        raise ValueError(msg)
    return lease.attempt


def _after(since: datetime | None, seconds: float, now: datetime) -> bool:
    return since is not None and since + timedelta(seconds=seconds) <= now


def _judged(since: datetime | None, seconds: float, now: datetime) -> datetime | None:
    """When to check a stage's time-out: at its end, and then repeatedly until a watch pass has observed the VM."""
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
