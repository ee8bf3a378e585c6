"""States, the transition table, and how a lease ends."""

from datetime import datetime
from itertools import product

import pytest

from app.domain.lease_requests import LeaseRequest
from app.domain.leases import (
    LIVE_ATTEMPT,
    TERMINAL,
    TRANSITIONS,
    AttemptState,
    LeaseState,
    final_state,
    sources,
)
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.domain.samples import NOW, ago, ahead, attempt, lease

S = LeaseState


def reachable_from(start: LeaseState) -> set[LeaseState]:
    found = {start}
    while more := {target for state in found for target in TRANSITIONS[state]} - found:
        found |= more
    return found


def test_every_state_has_its_row_in_the_table() -> None:
    assert set(TRANSITIONS) == set(LeaseState)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leads_out_of_a_terminal_state(state: LeaseState) -> None:
    assert TRANSITIONS[state] == frozenset()


@pytest.mark.parametrize("state", sorted(set(LeaseState) - TERMINAL))
def test_every_other_state_can_still_end_either_way(state: LeaseState) -> None:
    assert reachable_from(state) >= TERMINAL


def test_every_state_is_reached_from_the_queue() -> None:
    assert reachable_from(S.QUEUED) == set(LeaseState)


def test_releasing_is_entered_from_every_earlier_state_and_left_only_for_the_end() -> None:
    assert set(sources(S.RELEASING)) == {S.QUEUED, S.PROVISIONING, S.BOOTING, S.ACTIVE}
    assert TRANSITIONS[S.RELEASING] == TERMINAL


def test_only_releasing_leads_to_an_end() -> None:
    assert sources(S.RELEASED) == sources(S.FAILED) == (S.RELEASING,)


def test_a_lease_is_active_only_after_booting() -> None:
    assert sources(S.ACTIVE) == (S.BOOTING,)


@pytest.mark.parametrize(("state", "target"), list(product(LeaseState, LeaseState)))
def test_sources_are_the_table_read_backwards(state: LeaseState, target: LeaseState) -> None:
    assert (state in sources(target)) == (target in TRANSITIONS[state])


@pytest.mark.parametrize("state", list(LeaseState))
def test_no_state_leads_to_itself(state: LeaseState) -> None:
    assert state not in TRANSITIONS[state]


def test_an_attempt_lives_until_it_is_refused_or_dead() -> None:
    assert {state for state in AttemptState if attempt(state).live} == LIVE_ATTEMPT
    assert set(AttemptState) - LIVE_ATTEMPT == {AttemptState.REFUSED, AttemptState.DEAD}


def test_a_lease_expires_at_its_time_and_not_before() -> None:
    assert lease(expires_at=NOW).is_expired(NOW)
    assert lease(expires_at=ago(1)).is_expired(NOW)
    assert not lease(expires_at=ahead(0.001)).is_expired(NOW)


@pytest.mark.parametrize("code", list(ReasonCode))
def test_a_lease_that_never_was_active_failed_unless_somebody_wished_its_end(code: ReasonCode) -> None:
    wished = code in (ReasonCode.RELEASED_BY_USER, ReasonCode.RELEASED_BY_OPERATOR, ReasonCode.GROUP_SHRUNK)
    ended = final_state(lease(S.RELEASING, reason=Reason(code, "x")))
    assert ended is (S.RELEASED if wished else S.FAILED)


@pytest.mark.parametrize("code", list(ReasonCode))
def test_a_lease_that_was_active_is_released_whatever_ended_it(code: ReasonCode) -> None:
    assert final_state(lease(S.RELEASING, reason=Reason(code, "x"), ready_at=ago(5))) is S.RELEASED


def test_a_lease_without_any_reason_ends_as_failed() -> None:
    assert final_state(lease(S.RELEASING)) is S.FAILED


@pytest.mark.parametrize(("code", "origin"), list(product(ReasonCode, Origin)))
def test_a_reason_survives_being_stored(code: ReasonCode, origin: Origin) -> None:
    reason = Reason(code, "why – in a sentence", origin)
    assert Reason.from_json(reason.as_json()) == reason
    assert reason.as_json()["retryable"] is reason.retryable


@pytest.mark.parametrize(("wait_seconds", "since"), [(500, ahead(100)), (0, ahead(600))])
def test_a_lease_looks_since_its_patience_began(wait_seconds: int, since: datetime) -> None:
    assert (
        lease(request=LeaseRequest(ttl_seconds=3600, wait_seconds=wait_seconds), wait_until=ahead(600)).looking_since
        == since
    )
