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


def test_sources_are_the_table_read_backwards() -> None:
    forwards = {(state, target) for state, targets in TRANSITIONS.items() for target in targets}
    assert {(state, target) for target in LeaseState for state in sources(target)} == forwards


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


def test_a_lease_that_never_was_active_failed_unless_somebody_wished_its_end() -> None:
    ended = {code: final_state(lease(S.RELEASING, reason=Reason(code, "x"))) for code in ReasonCode}
    wished = (ReasonCode.RELEASED_BY_USER, ReasonCode.RELEASED_BY_OPERATOR, ReasonCode.GROUP_SHRUNK)
    assert ended == dict.fromkeys(ReasonCode, S.FAILED) | dict.fromkeys(wished, S.RELEASED)


def test_a_lease_that_was_active_is_released_whatever_ended_it() -> None:
    ended = {code: final_state(lease(S.RELEASING, reason=Reason(code, "x"), ready_at=ago(5))) for code in ReasonCode}
    assert ended == dict.fromkeys(ReasonCode, S.RELEASED)


def test_a_lease_without_any_reason_ends_as_failed() -> None:
    assert final_state(lease(S.RELEASING)) is S.FAILED


def test_a_reason_survives_being_stored() -> None:
    reasons = [Reason(code, "why – in a sentence", origin) for code, origin in product(ReasonCode, Origin)]
    assert [Reason.from_json(reason.as_json()) for reason in reasons] == reasons
    assert [reason for reason in reasons if reason.as_json()["retryable"] is not reason.retryable] == []


@pytest.mark.parametrize(("wait_seconds", "since"), [(500, ahead(100)), (0, ahead(600))])
def test_a_lease_looks_since_its_patience_began(wait_seconds: int, since: datetime) -> None:
    assert (
        lease(request=LeaseRequest(ttl_seconds=3600, wait_seconds=wait_seconds), wait_until=ahead(600)).looking_since
        == since
    )
