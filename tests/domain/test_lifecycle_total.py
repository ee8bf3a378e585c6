"""`decide` over every combination of facts: what it may answer, and what it never may."""

from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import get_args

from app.domain.gpus.findings import ProofStatus
from app.domain.gpus.protocol import ReadConsole, RebootForGpus
from app.domain.lease_requests import OnInterruption, ProofMode
from app.domain.leases import TRANSITIONS, AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.lifecycle import (
    Attach,
    BeginRelease,
    CloseAttempt,
    Enter,
    Finish,
    Look,
    Place,
    RenewDeadline,
    Requeue,
    Rest,
    Send,
    Settle,
    Step,
    Terminate,
    Verify,
    deadline,
    decide,
)
from app.domain.reasons import SUSPENDED, ReasonCode
from app.domain.stopped_vms import is_unconfirmed
from tests.domain.cases import NOW, TIMING, gpu_leases, leases, volume_leases

ALIVE = (AttemptState.PLANNED, AttemptState.SENT, AttemptState.KNOWN, AttemptState.SETTLING)


@cache
def decided() -> tuple[tuple[Lease, Step], ...]:
    """Every case with its step. That this returns at all shows that `decide` raises for none."""
    return tuple((one, decide(one, NOW, TIMING)) for one in chain(leases(), gpu_leases(), volume_leases()))


def steps_of(kind: type[Step]) -> list[tuple[Lease, Step]]:
    found = [(one, step) for one, step in decided() if isinstance(step, kind)]
    assert found, f"no case asks for {kind.__name__}: the cases do not cover the rules"
    return found


def test_every_case_has_a_step() -> None:
    assert len(decided()) > 30_000
    assert all(isinstance(step, Step) for _, step in decided())


def test_every_kind_of_step_is_asked_for_somewhere() -> None:
    kinds = {type(step) for _, step in decided()}
    assert kinds == set(get_args(Step))


def test_a_lease_is_not_active_before_its_volumes_are_attached() -> None:
    for one, step in decided():
        if one.awaits_volumes and not one.terminal:
            assert step != Enter(LeaseState.ACTIVE), one


def test_volumes_are_attached_to_a_vm_that_is_there_and_not_twice() -> None:
    for one, _ in steps_of(Attach):
        assert one.state is LeaseState.BOOTING
        assert one.desired is Desired.RUN
        assert one.awaits_volumes
        assert one.attempt is not None
        assert one.attempt.vm_state not in (VmState.GONE, VmState.ENDING, VmState.STOPPED, VmState.ABSENT)


def test_a_vm_that_gets_no_volumes_in_time_ends() -> None:
    causes = {
        step.reason.message
        for one, step in decided()
        if isinstance(step, BeginRelease) and step.reason.code is ReasonCode.BOOT_TIMEOUT and one.awaits_volumes
    }
    assert len(causes) == 1
    assert "volumes were not attached" in causes.pop()


def test_what_has_ended_rests_for_ever() -> None:
    ended = [step for one, step in decided() if one.terminal]
    assert ended
    assert set(ended) == {Rest(None)}


def test_a_lease_being_ended_is_never_placed_sent_or_advanced() -> None:
    allowed = (Rest, Settle, Look, CloseAttempt, Terminate, Verify, Finish)
    assert all(isinstance(step, allowed) for one, step in decided() if one.state is LeaseState.RELEASING)


def test_what_is_settling_is_only_looked_for() -> None:
    for one, step in decided():
        if one.attempt is not None and one.attempt.state is AttemptState.SETTLING:
            assert isinstance(step, Look | Rest | BeginRelease), (one, step)


def test_only_a_wanted_lease_with_an_open_attempt_sends() -> None:
    for one, _ in steps_of(Send):
        assert one.attempt is not None
        assert one.attempt.state in (AttemptState.PLANNED, AttemptState.SENT)
        assert one.desired is Desired.RUN
        assert one.expires_at > NOW


def test_nothing_is_sent_again_after_its_time_of_repeating() -> None:
    for one, _ in steps_of(Send):
        assert one.attempt is not None
        since = one.attempt.unknown_since
        assert since is None or (NOW - since).total_seconds() < TIMING.unknown_retry


def test_a_new_attempt_is_placed_only_where_none_lives() -> None:
    for one, _ in steps_of(Place):
        assert one.attempt is None or not one.attempt.live
        assert one.state in (LeaseState.QUEUED, LeaseState.PROVISIONING)


def test_an_expired_lease_that_is_wanted_always_ends() -> None:
    for one, step in decided():
        if one.desired is Desired.RUN and one.expires_at <= NOW:
            assert isinstance(step, BeginRelease)
            assert step.reason.code is ReasonCode.EXPIRED


def test_a_wanted_lease_never_sleeps_past_its_expiry() -> None:
    for one, step in steps_of(Rest):
        assert isinstance(step, Rest)
        if one.desired is Desired.RUN:
            assert step.until is not None
            assert step.until <= one.expires_at


def test_a_rest_always_ends_later_than_now() -> None:
    for _, step in steps_of(Rest):
        assert isinstance(step, Rest)
        assert step.until is None or step.until > NOW


def test_no_call_is_made_before_its_retry_time() -> None:
    for one, step in decided():
        waits = one.attempt is not None and one.attempt.retry_at is not None and one.attempt.retry_at > NOW
        if waits and not one.terminal:
            calls = Send | Look | Verify | Terminate | ReadConsole | RebootForGpus
            assert not isinstance(step, calls), (one, step)


def test_the_end_is_reached_only_when_nothing_is_left() -> None:
    for one, _ in steps_of(Finish):
        assert one.state is LeaseState.RELEASING
        assert one.unclean_attempts == 0
        assert one.attempt is None or not one.attempt.live


def test_an_attempt_is_closed_only_when_never_sent_or_gone() -> None:
    for one, _ in steps_of(CloseAttempt):
        assert one.attempt is not None
        assert one.attempt.state is AttemptState.PLANNED or one.attempt.vm_state is VmState.GONE


def test_no_lease_shows_active_once_its_vm_is_gone() -> None:
    for one, step in decided():
        gone = one.attempt is not None and one.attempt.live and one.attempt.vm_state is VmState.GONE
        if gone and one.state is LeaseState.ACTIVE:
            assert isinstance(step, BeginRelease | CloseAttempt), (one, step)


def test_active_is_entered_only_by_what_runs_and_is_ready() -> None:
    for one, step in steps_of(Enter):
        assert one.attempt is not None
        assert one.attempt.vm_state is VmState.RUNNING
        assert step == Enter(LeaseState.BOOTING) or one.attempt.ready


def test_no_lease_with_a_failed_proof_becomes_active() -> None:
    for one, step in decided():
        own = one.proof is not None and one.attempt is not None and one.proof.n == one.attempt.n
        failed = own and one.proof is not None and one.proof.status is ProofStatus.FAILED
        if failed and one.request.proof is not ProofMode.OFF:
            assert step != Enter(LeaseState.ACTIVE), one


def test_a_required_proof_is_there_before_the_lease_is_active() -> None:
    for one, _ in steps_of(Enter):
        if one.state is LeaseState.BOOTING and one.request.proof is ProofMode.REQUIRED:
            assert one.attempt is not None
            assert not one.attempt.has_agent or (one.proof is not None and one.proof.status is ProofStatus.PASSED)


def test_a_rejected_vm_is_only_ended() -> None:
    rejected = [(one, step) for one, step in decided() if one.rejected_for is not None]
    assert rejected
    for one, step in rejected:
        assert isinstance(step, Terminate | CloseAttempt | Requeue | Verify | Rest | BeginRelease), (one, step)
        if isinstance(step, BeginRelease):
            assert step.reason.code is ReasonCode.EXPIRED


def test_a_vm_is_rebooted_for_its_gpus_only_once() -> None:
    for one, _ in steps_of(RebootForGpus):
        assert one.attempt is not None
        assert one.attempt.gpu_rebooted_at is None or one.state is LeaseState.ACTIVE
        assert one.attempt.gpu_rebooted_at is None or one.ready_at is None or one.attempt.gpu_rebooted_at < one.ready_at


def test_a_deadline_tag_is_renewed_only_where_a_vm_runs_that_is_wanted() -> None:
    for one, _ in steps_of(RenewDeadline):
        assert one.attempt is not None
        assert one.attempt.state is AttemptState.KNOWN
        assert one.attempt.vm_state in (VmState.QUEUED, VmState.PENDING, VmState.RUNNING)
        assert one.deadline_applied != deadline(one, TIMING)


def test_every_step_that_changes_the_state_is_in_the_table() -> None:
    for one, step in decided():
        match step:
            case Enter(state):
                assert state in TRANSITIONS[one.state]
            case Requeue():
                assert LeaseState.QUEUED in TRANSITIONS[one.state]
            case BeginRelease():
                assert LeaseState.RELEASING in TRANSITIONS[one.state]
            case _:
                pass


def test_a_lease_is_replaced_only_after_its_old_attempt_is_dead() -> None:
    for one, _ in steps_of(Requeue):
        assert one.attempt is not None
        assert one.attempt.state is AttemptState.DEAD


def test_only_a_lease_that_is_to_be_replaced_outlives_the_loss_of_its_vm() -> None:
    lost = (VmState.GONE, VmState.ENDING, VmState.STOPPED)
    for one, step in decided():
        if one.state not in (LeaseState.BOOTING, LeaseState.ACTIVE) or one.attempt is None:
            continue
        if one.attempt.state is AttemptState.KNOWN and one.attempt.vm_state in lost:
            interrupted = "interrupted" in (one.attempt.vm_reason or {})
            replaced = one.on_interruption is OnInterruption.REPLACE and interrupted
            replaced = replaced or one.rejected_for is not None or is_unconfirmed(one.attempt, ran=True)
            assert replaced or isinstance(step, BeginRelease), (one, step)


def test_a_vm_missing_from_a_listing_is_asked_for_before_anything_is_believed() -> None:
    for one, step in decided():
        if one.attempt is None or one.attempt.vm_state is not VmState.ABSENT:
            continue
        if one.attempt.state is AttemptState.KNOWN:
            assert isinstance(step, Verify | Terminate | Rest | BeginRelease), (one, step)


def test_one_answer_alone_never_ends_a_stopped_vm_of_a_wanted_lease() -> None:
    causes = {step.reason.code for one, step in decided() if isinstance(step, BeginRelease) and _stop_in_doubt(one)}
    assert ReasonCode.INSTANCE_LOST not in causes
    ended = [one for one, step in decided() if isinstance(step, Terminate) and _stop_in_doubt(one)]
    assert all(one.desired is Desired.END or one.rejected_for is not None for one in ended)
    assert any(isinstance(step, Verify) for one, step in decided() if _stop_in_doubt(one))


def _stop_in_doubt(one: Lease) -> bool:
    attempt = one.attempt
    return (
        attempt is not None
        and attempt.state is AttemptState.KNOWN
        and is_unconfirmed(attempt, ran=one.state is not LeaseState.PROVISIONING)
    )


def test_a_lease_of_a_suspended_tenant_keeps_its_vm_and_gets_no_other() -> None:
    for one, step in decided():
        suspended = decide(replace(one, tenant_active=False), NOW, TIMING)
        gets_one = one.state is LeaseState.QUEUED or isinstance(step, Place | Send | Requeue)
        if one.desired is Desired.RUN and gets_one and not isinstance(step, BeginRelease):
            assert suspended == BeginRelease(SUSPENDED), one
        else:
            assert suspended == step, one


def test_the_same_facts_give_the_same_step() -> None:
    assert all(decide(one, NOW, TIMING) == step for one, step in decided()[::97])


def test_time_alone_never_takes_a_step_back_from_an_expired_lease() -> None:
    later = datetime.max.replace(tzinfo=NOW.tzinfo)
    for one, step in decided()[::31]:
        if isinstance(step, BeginRelease) and step.reason.code is ReasonCode.EXPIRED:
            assert decide(one, later, TIMING) == step
