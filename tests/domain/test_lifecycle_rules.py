"""The proof that nothing was created, the back-off, and the causes that end a lease by themselves."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.inventory import EMPTY_LISTINGS
from app.domain.lease_requests import OnInterruption
from app.domain.leases import AttemptState, Desired, LeaseState, VmState
from app.domain.lifecycle import (
    BeginRelease,
    CloseAttempt,
    Enter,
    Place,
    RenewDeadline,
    Requeue,
    Rest,
    Send,
    Settle,
    Step,
    Terminate,
    Verify,
    backoff,
    decide,
    may_appear_until,
    settled,
)
from app.domain.reasons import Origin, ReasonCode
from tests.domain.cases import leases
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease

A, S = AttemptState, LeaseState


def settling(**changes: Any) -> Any:
    proof = {"last_sent_at": ago(600), "empty_listings": EMPTY_LISTINGS, "last_empty_listing_at": ago(120)}
    return attempt(A.SETTLING, **{**proof, **changes})


# --- the proof ------------------------------------------------------------------------------------------


def test_two_listings_a_get_and_time_prove_that_nothing_was_created() -> None:
    assert settled(settling(), NOW, TIMING)


@pytest.mark.parametrize(
    "missing",
    [
        {"last_sent_at": ago(599)},
        {"last_sent_at": None},
        {"empty_listings": 0, "last_empty_listing_at": None},
        {"empty_listings": 1},
        {"last_empty_listing_at": ago(119)},
        {"last_empty_listing_at": None},
    ],
    ids=str,
)
def test_without_any_one_part_it_is_no_proof(missing: dict[str, Any]) -> None:
    assert not settled(settling(**missing), NOW, TIMING)


@given(since_send=st.floats(0, 5000), since_listing=st.floats(0, 5000), listings=st.integers(0, 5))
def test_a_proof_stays_a_proof(since_send: float, since_listing: float, listings: int) -> None:
    one = settling(last_sent_at=ago(since_send), last_empty_listing_at=ago(since_listing), empty_listings=listings)
    if settled(one, NOW, TIMING):
        assert settled(one, NOW + timedelta(days=1), TIMING)


# --- a VM that does not show -----------------------------------------------------------------------------


def appears_until(running: float | None = None, seen: float | None = None, *, accepted: bool = False, **of: Any) -> Any:
    """Launched a minute ago; `running` and `seen` are seconds ago."""
    ran = {} if running is None else {"running_at": ago(running)}
    known = attempt(A.KNOWN, **{"known_at": ago(60), "vm_state": VmState.ABSENT, "vm_reason": None, **of})
    last_seen = None if seen is None else ago(seen)
    return may_appear_until(lease(S.ACTIVE, **ran), known, TIMING, last_seen=last_seen, end_accepted=accepted)


def test_a_fresh_vm_that_nobody_saw_may_appear_for_the_whole_grace() -> None:
    assert appears_until() == ago(60) + timedelta(seconds=TIMING.not_found_grace)
    assert appears_until(terminate_sent_at=ago(1)) == appears_until()


def test_one_that_was_seen_may_be_missing_for_a_gap_from_whatever_showed_it_last() -> None:
    gap = timedelta(seconds=TIMING.settle_gap)
    assert appears_until(running=40, seen=20) == ago(20) + gap
    assert appears_until(running=40, seen=3600) == ago(40) + gap, "an old listing told of a time before it ran"
    assert appears_until(vm_reason={"code": "x"}) == ago(60) + gap
    assert appears_until(running=250, seen=5, known_at=ago(290)) == ago(290) + timedelta(seconds=TIMING.not_found_grace)


@pytest.mark.parametrize(
    "ended", [{"accepted": True}, {"running": 40, "terminate_sent_at": ago(1)}, {"known_at": None}], ids=str
)
def test_one_that_was_to_end_and_had_been_seen_is_gone(ended: dict[str, Any]) -> None:
    assert appears_until(**ended) is None


# --- pauses ---------------------------------------------------------------------------------------------


def test_back_off_doubles_from_five_seconds_to_the_longest() -> None:
    assert [backoff(tries, 300) for tries in range(1, 9)] == [5, 10, 20, 40, 80, 160, 300, 300]


@given(tries=st.integers(-5, 10**9), longest=st.floats(1, 10_000), first=st.floats(0.1, 100))
def test_back_off_is_bounded_and_never_shrinks(tries: int, longest: float, first: float) -> None:
    pause = backoff(tries, longest, first=first)
    assert 0 < pause <= longest
    assert pause <= backoff(tries + 1, longest, first=first)


@pytest.mark.parametrize("tries", range(1, 12))
def test_terminate_is_repeated_for_ever_with_growing_pauses(tries: int) -> None:
    due = ago(0) + timedelta(seconds=backoff(tries, TIMING.max_backoff))
    one = lease(S.RELEASING, attempt=known(VmState.RUNNING, terminate_sent_at=NOW, terminate_tries=tries))
    assert decide(one, NOW, TIMING) == Rest(due)
    assert decide(one, due, TIMING) == Terminate()


# --- unknown outcomes -------------------------------------------------------------------------------------


def test_an_unknown_outcome_is_repeated_for_five_minutes_and_then_only_looked_for() -> None:
    one = lease(S.PROVISIONING, attempt=attempt(A.SENT, unknown_since=NOW, last_sent_at=NOW))
    assert decide(one, ahead(299), TIMING) == Send()
    assert decide(one, ahead(300), TIMING) == Settle()


def test_a_cancelled_send_is_looked_for_at_once() -> None:
    assert decide(lease(S.RELEASING, attempt=attempt(A.SENT, last_sent_at=NOW)), NOW, TIMING) == Settle()


# --- ends by themselves -----------------------------------------------------------------------------------


def known(vm_state: VmState, **changes: Any) -> Any:
    facts: dict[str, Any] = {"instance_id": "i-1", "known_at": ago(60), "last_sent_at": ago(61)}
    return attempt(A.KNOWN, vm_state=vm_state, **{**facts, **changes})


def cause(one: Any, now: datetime = NOW) -> tuple[ReasonCode, Origin] | None:
    step = decide(one, now, TIMING)
    return (step.reason.code, step.reason.origin) if isinstance(step, BeginRelease) else None


@pytest.mark.parametrize(
    ("state", "vm_state"),
    list(product([S.BOOTING, S.ACTIVE], [VmState.GONE, VmState.ENDING, VmState.STOPPED])),
)
def test_a_vm_ended_behind_our_back_ends_its_lease(state: LeaseState, vm_state: VmState) -> None:
    one = lease(state, attempt=known(vm_state, vm_reason={"confirmed": True}))
    assert cause(one) == (ReasonCode.INSTANCE_LOST, Origin.PROVIDER)


@pytest.mark.parametrize("state", [S.PROVISIONING, S.BOOTING, S.ACTIVE])
def test_a_stopped_vm_is_read_once_more_before_its_lease_gives_it_up(state: LeaseState) -> None:
    fresh = {"seen_at": ago(1).isoformat(), "confirmed": False}
    assert decide(lease(state, attempt=known(VmState.STOPPED, vm_reason=fresh)), NOW, TIMING) == Rest(ahead(29))
    later = {"seen_at": ago(31).isoformat(), "confirmed": False}
    assert decide(lease(state, attempt=known(VmState.STOPPED, vm_reason=later)), NOW, TIMING) == Verify()
    assert decide(lease(state, attempt=known(VmState.STOPPED)), NOW, TIMING) == Verify()
    failed = known(VmState.STOPPED, retry_at=ahead(5))
    assert decide(lease(state, attempt=failed), NOW, TIMING) == Rest(ahead(5)), "the read failed: later"


@pytest.mark.parametrize("definite", [{"refusal": "InsufficientCapacity"}, {"confirmed": True}, {"interrupted": True}])
def test_a_definite_stop_of_a_vm_that_never_ran_ends_it_at_once(definite: dict[str, Any]) -> None:
    one = known(VmState.STOPPED, vm_reason={"seen_at": NOW.isoformat(), **definite})
    assert decide(lease(S.PROVISIONING, attempt=one), NOW, TIMING) == Terminate()


def test_the_failure_of_a_vm_that_ran_may_concern_a_later_operation() -> None:
    failed = known(VmState.STOPPED, vm_reason={"refusal": "InsufficientCapacity", "seen_at": ago(31).isoformat()})
    assert decide(lease(S.ACTIVE, attempt=failed), NOW, TIMING) == Verify()


def test_a_lease_that_ends_does_not_wait_for_the_second_look() -> None:
    assert decide(lease(S.RELEASING, attempt=known(VmState.STOPPED)), NOW, TIMING) == Terminate()


@pytest.mark.parametrize("state", [S.BOOTING, S.ACTIVE])
def test_an_interruption_ends_a_lease_that_wants_no_replacement(state: LeaseState) -> None:
    one = lease(state, attempt=known(VmState.GONE, vm_reason={"interrupted": True, "message": "taken"}))
    assert cause(one) == (ReasonCode.INTERRUPTED, Origin.PROVIDER)


@pytest.mark.parametrize(
    ("vm_state", "clean", "step"),
    [(VmState.ENDING, False, Terminate()), (VmState.GONE, True, CloseAttempt())],
)
def test_an_interruption_of_a_lease_that_wants_a_replacement_does_not_end_it(
    vm_state: VmState, *, clean: bool, step: Step
) -> None:
    taken = known(vm_state, vm_reason={"interrupted": True}, clean=clean)
    one = lease(S.ACTIVE, attempt=taken, on_interruption=OnInterruption.REPLACE)
    assert decide(one, NOW, TIMING) == step


def test_the_providers_words_reach_the_reason() -> None:
    one = lease(S.ACTIVE, attempt=known(VmState.GONE, vm_reason={"code": "Client.UserInitiatedShutdown"}))
    step = decide(one, NOW, TIMING)
    assert isinstance(step, BeginRelease)
    assert "Client.UserInitiatedShutdown" in step.reason.message


def test_an_interrupted_lease_that_wants_one_is_queued_again_once_its_attempt_is_dead() -> None:
    one = lease(S.ACTIVE, attempt=attempt(A.DEAD, clean=True), on_interruption=OnInterruption.REPLACE)
    assert decide(one, NOW, TIMING) == Requeue()


def test_a_vm_that_does_not_start_ends_and_its_lease_goes_on() -> None:
    one = lease(S.PROVISIONING, attempt=known(VmState.PENDING, known_at=ago(299), watched_at=ahead(60)))
    assert decide(one, NOW, TIMING) == Rest(ahead(1))
    assert (decide(one, ahead(1), TIMING), cause(one, ahead(1))) == (Terminate(), None)


@pytest.mark.parametrize("vm_state", [VmState.PENDING, VmState.RUNNING])
def test_a_vm_that_was_asked_to_end_before_it_started_is_never_used(vm_state: VmState) -> None:
    """The provider may show the old state for a moment, and the VM may even start."""
    one = lease(S.PROVISIONING, attempt=known(vm_state, known_at=ago(310), terminate_sent_at=NOW, terminate_tries=1))
    assert decide(one, NOW, TIMING) == Rest(ahead(5))
    assert decide(one, ahead(5), TIMING) == Terminate()


def test_after_a_vm_that_did_not_start_the_next_candidate_is_tried() -> None:
    one = lease(S.PROVISIONING, attempt=known(VmState.GONE, known_at=ago(310), terminate_sent_at=ago(5)))
    assert decide(one, NOW, TIMING) == CloseAttempt()
    assert decide(lease(S.PROVISIONING, attempt=attempt(A.DEAD)), NOW, TIMING) == Place()


def test_a_vm_that_never_gets_ready_ends_its_lease() -> None:
    one = lease(S.BOOTING, attempt=known(VmState.RUNNING, watched_at=ahead(60)), running_at=ago(899))
    assert cause(one) is None
    assert cause(one, ahead(1)) == (ReasonCode.BOOT_TIMEOUT, Origin.SYSTEM)


def test_a_vm_with_eight_gpus_may_boot_longer() -> None:
    booting = known(VmState.RUNNING, watched_at=ahead(60), gpu_count=8)
    one = lease(S.BOOTING, attempt=booting, running_at=ago(1799))
    assert decide(one, NOW, TIMING) == Rest(ahead(1))
    over = decide(one, ahead(1), TIMING)
    assert isinstance(over, BeginRelease)
    assert over.reason.message == "the VM was not ready within 1800 s"


@pytest.mark.parametrize("watched_at", [None, ago(100)])
def test_a_time_out_that_passed_while_nobody_looked_ends_nothing(watched_at: datetime | None) -> None:
    starting = lease(S.PROVISIONING, attempt=known(VmState.PENDING, known_at=ago(350), watched_at=watched_at))
    booting = lease(S.BOOTING, attempt=known(VmState.RUNNING, watched_at=watched_at), running_at=ago(950))
    assert (cause(starting), cause(booting)) == (None, None)
    assert isinstance(decide(starting, NOW, TIMING), Rest)


def test_a_vm_that_was_seen_to_be_well_is_not_ended_because_its_lease_was_moved_late() -> None:
    late = {"known_at": ago(950), "watched_at": NOW}
    started = lease(S.PROVISIONING, attempt=known(VmState.RUNNING, **late))
    ready = lease(S.BOOTING, attempt=known(VmState.RUNNING, ready=True, **late), running_at=ago(950))
    assert decide(started, NOW, TIMING) == Enter(S.BOOTING)
    assert decide(ready, NOW, TIMING) == Enter(S.ACTIVE)


def test_a_vm_that_was_ready_and_does_not_run_has_its_time_out() -> None:
    stuck = known(VmState.PENDING, ready=True, watched_at=NOW)
    assert cause(lease(S.BOOTING, attempt=stuck, running_at=ago(950))) == (ReasonCode.BOOT_TIMEOUT, Origin.SYSTEM)


def test_an_active_lease_has_no_boot_time_out() -> None:
    one = lease(S.ACTIVE, attempt=known(VmState.RUNNING, ready=True), running_at=ago(100_000))
    assert decide(one, NOW, TIMING) == Rest(one.expires_at)


# --- terms in doubt ---------------------------------------------------------------------------------------


def in_doubt(state: LeaseState, attempt_state: AttemptState = A.KNOWN, **changes: Any) -> Any:
    """An expired lease of which nobody has read the tag since the hold."""
    facts = (
        {"vm_state": VmState.RUNNING, "known_at": ago(60)} if attempt_state is A.KNOWN else {"last_sent_at": ago(60)}
    )
    one = attempt(attempt_state, **{**facts, **changes})
    return lease(state, attempt=one, expires_at=NOW, term_in_doubt=True)


@pytest.mark.parametrize("state", [S.BOOTING, S.ACTIVE])
def test_a_lease_whose_term_is_in_doubt_does_not_expire_and_looks_again(state: LeaseState) -> None:
    step = decide(in_doubt(state), NOW, TIMING)
    assert isinstance(step, Rest)
    assert step.until is not None
    assert NOW < step.until <= ahead(60)
    assert isinstance(decide(replace(in_doubt(state), term_in_doubt=False), NOW, TIMING), BeginRelease)


@pytest.mark.parametrize("attempt_state", A)
def test_only_a_lease_that_may_have_a_vm_waits_for_its_tag(attempt_state: AttemptState) -> None:
    one = in_doubt(S.PROVISIONING, attempt_state, vm_state=None)
    waits = not isinstance(decide(one, NOW, TIMING), BeginRelease)
    assert waits == (attempt_state in (A.SENT, A.SETTLING, A.KNOWN))
    assert isinstance(decide(replace(one, attempt=None), NOW, TIMING), BeginRelease)


def test_a_lease_whose_vm_is_gone_waits_for_no_tag() -> None:
    assert isinstance(decide(in_doubt(S.ACTIVE, vm_state=VmState.GONE), NOW, TIMING), BeginRelease)


def test_a_tag_that_may_tell_what_was_lost_is_not_written_over() -> None:
    behind = lease(S.ACTIVE, attempt=attempt(vm_state=VmState.RUNNING), deadline_applied=ago(1))
    assert decide(behind, NOW, TIMING) == RenewDeadline()
    assert decide(replace(behind, term_in_doubt=True), NOW, TIMING) == Rest(behind.expires_at)


def test_doubt_about_its_term_changes_nothing_else() -> None:
    for one in leases():
        step = decide(one, NOW, TIMING)
        expires = one.desired is Desired.RUN and one.is_expired(NOW)
        if not expires and not isinstance(step, RenewDeadline):
            assert decide(replace(one, term_in_doubt=True), NOW, TIMING) == step
