"""What gpulease does for a lease now, in one sentence for each situation."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from app.domain.explanations.candidate_verdicts import CandidateVerdict, PlacementFacts, QuotaState
from app.domain.explanations.explanations import (
    Explanation,
    ExplanationCode,
    LeaseFacts,
    NewestAttempt,
    QueuePlace,
    choose,
    explain,
)
from app.domain.explanations.near_misses import describe, find_near_misses
from app.domain.explanations.situation import VERDICT_TEXTS, clock_time, find_situation
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import LIVE_ATTEMPT, AttemptState, LeaseState, VmState
from app.domain.offerings import Offering
from app.domain.placement import Requirements, rank
from app.domain.reasons import Reason, ReasonCode
from app.domain.vm_parts import DEFAULT_PARTS
from tests.domain.explanations.test_candidate_verdicts import placement
from tests.domain.samples import NOW, ago, ahead, cool_off, offering

C = ExplanationCode
COOLING = offering(cool_off=cool_off(ahead(70)))
QUEUE = QueuePlace(waiting=9, position=4, waiting_in_tenant=2, position_in_tenant=1)


def attempt(state: AttemptState = AttemptState.SENT, **changes: Any) -> NewestAttempt:
    facts: dict[str, Any] = {"vm_state": None, "created_at": ago(20), "starting_since": None, "retry_at": None}
    facts |= {"failed": False, "typical_ready_seconds": 42.0, "live": state in LIVE_ATTEMPT}
    return NewestAttempt(place=describe(offering(), DEFAULT_PARTS), state=state, **{**facts, **changes})


def lease(state: LeaseState = LeaseState.QUEUED, **changes: Any) -> LeaseFacts:
    facts: dict[str, Any] = {
        "reason": None,
        "request": LeaseRequest(ttl_seconds=3600, wait_seconds=700),
        "wait_until": ahead(600),
        "running_at": None,
        "ready_at": None,
        "release_requested_at": None,
        "ended_at": NOW if state in (LeaseState.RELEASED, LeaseState.FAILED) else None,
        "attempts_count": 1,
        "next_due": ahead(30),
        "claimed": False,
        "slot_at": None,
        "on_hold": False,
        "launches_stopped": False,
        "attempt": None,
        "launch_timeout": 300.0,
        "boot_timeout": 900.0,
    }
    return LeaseFacts(now=NOW, state=state, **{**facts, **changes})


def explained(facts: LeaseFacts, *offerings: Offering, where: PlacementFacts | None = None) -> Explanation:
    wish, where = Requirements.of(facts.request), where or placement()
    ranking = rank(wish, offerings, NOW)
    choice = choose(where, ranking, first_pass=facts.attempts_count == 0)
    near = find_near_misses(wish, ranking)
    return explain(facts, find_situation(facts, choice, where), choice, where, near, QUEUE)


def test_every_verdict_has_a_text() -> None:
    assert VERDICT_TEXTS.keys() == set(CandidateVerdict)


@pytest.mark.parametrize(
    ("changes", "offerings", "code", "part"),
    [
        (
            {},
            [offering()],
            C.TRIES_NEXT,
            "gpulease tries g5.xlarge on demand in us-east-1a (aws) at 1.006 USD an hour at",
        ),
        ({"next_due": ago(1)}, [offering()], C.TRIES_NEXT, "an hour now."),
        ({"next_due": ago(61)}, [offering()], C.OVERDUE, "no worker has started this"),
        ({"next_due": ago(61), "claimed": True}, [offering()], C.TRIES_NEXT, "an hour now."),
        ({"slot_at": ahead(9)}, [offering()], C.RATE_LIMITED, "at 12:00:09 UTC, in its slot of the rate limit"),
        (
            {},
            [COOLING],
            C.NO_CAPACITY,
            "fits is in cool-off; gpulease tries again at 12:00:30 UTC and gives up at 12:10:00",
        ),
        ({"attempts_count": 0}, [COOLING], C.TRIES_NEXT, "gpulease tries g5.xlarge"),
        ({"wait_until": ago(1)}, [COOLING], C.NO_CAPACITY, "for the last time"),
        ({}, [], C.NOTHING_FITS, "No offering can be used now: no offering fits the request at present;"),
        ({}, [offering(account_problem="x")], C.NOTHING_FITS, "the provider refuses the installation's account"),
        ({"launches_stopped": True}, [offering()], C.LAUNCHES_STOPPED, "Operators have stopped all launches"),
        ({"on_hold": True}, [offering()], C.ON_HOLD, "until an operator resumes"),
    ],
)
def test_a_queued_lease_says_when_it_tries_what(
    changes: dict[str, Any], offerings: list[Offering], code: ExplanationCode, part: str
) -> None:
    found = explained(lease(**changes), *offerings)
    assert found.situation.code is code
    assert part in found.situation.summary
    assert found.queue is QUEUE


def test_a_queued_lease_names_what_its_candidates_lack() -> None:
    short = explained(lease(), offering(), where=placement(quota=QuotaState()))
    assert (short.situation.code, [need.resource for need in short.quota if not need.fits]) == (C.OVER_QUOTA, ["gpus"])
    where = placement(unlisted={("main", "eu"): True})
    unlisted = explained(lease(), offering(region="eu"), COOLING, where=where)
    assert (unlisted.situation.code, unlisted.situation.gives_up_at) == (C.REGION_NOT_LISTED, None)
    assert unlisted.situation.summary == (
        "2 offerings fit, but none is free now (1 is in cool-off, 1 is in a region without a listing); "
        "gpulease tries again at 12:00:30 UTC."
    )


KNOWN = AttemptState.KNOWN


@pytest.mark.parametrize(
    ("state", "newest", "code"),
    [
        (LeaseState.PROVISIONING, attempt(AttemptState.PLANNED), C.LAUNCHING),
        (LeaseState.PROVISIONING, attempt(failed=True, retry_at=ahead(5)), C.LAUNCHING),
        (LeaseState.PROVISIONING, attempt(AttemptState.SETTLING), C.OUTCOME_UNKNOWN),
        (LeaseState.PROVISIONING, attempt(KNOWN, vm_state=VmState.PENDING, starting_since=ago(9)), C.STARTING),
        (LeaseState.PROVISIONING, attempt(KNOWN, vm_state=VmState.QUEUED), C.QUEUED_AT_PROVIDER),
        (LeaseState.PROVISIONING, attempt(KNOWN, vm_state=VmState.GONE), C.ENDING_VM),
        (LeaseState.PROVISIONING, attempt(AttemptState.REFUSED), C.TRIES_NEXT),
        (LeaseState.BOOTING, attempt(KNOWN, vm_state=VmState.RUNNING), C.BOOTING),
        (LeaseState.BOOTING, attempt(KNOWN, vm_state=VmState.ENDING), C.ENDING_VM),
        (LeaseState.ACTIVE, attempt(KNOWN, vm_state=VmState.RUNNING), C.ACTIVE),
        (LeaseState.RELEASING, attempt(KNOWN, vm_state=VmState.ENDING), C.RELEASING),
        (LeaseState.RELEASED, attempt(AttemptState.DEAD), C.ENDED),
    ],
)
def test_each_later_stage_has_a_code_and_its_time_limit(
    state: LeaseState, newest: NewestAttempt, code: ExplanationCode
) -> None:
    found = explained(lease(state, attempt=newest, running_at=ago(30)), offering())
    assert found.situation.code is code
    limits: dict[ExplanationCode, datetime] = {C.STARTING: ahead(291), C.BOOTING: ahead(870), C.TRIES_NEXT: ahead(600)}
    assert found.situation.gives_up_at == limits.get(code)
    assert found.queue is None


def test_a_failed_lease_says_whether_the_same_request_would_fit() -> None:
    failed = lease(
        LeaseState.FAILED, reason=Reason(ReasonCode.CAPACITY_EXHAUSTED, "2 offerings refused."), next_due=None
    )
    free, later = explained(failed, offering()), explained(failed, COOLING)
    assert "ended: 2 offerings refused; the same request would now get g5.xlarge" in free.situation.summary
    assert (later.situation.retryable, later.situation.next_try_at) == (True, None)
    assert later.situation.summary.endswith("may succeed later.")
    capped = replace(failed, reason=Reason(ReasonCode.PRICE_CAP, "too expensive"))
    assert explained(capped).situation.summary.endswith("does not fit at present.")


@pytest.mark.parametrize(
    ("changes", "offerings"),
    [
        ({}, [offering()]),
        ({"claimed": True, "next_due": None}, [COOLING]),
        ({"launches_stopped": True, "next_due": ago(99)}, []),
    ],
)
def test_every_state_of_a_lease_has_one_sentence(changes: dict[str, Any], offerings: list[Offering]) -> None:
    for state, kind, vm in product(LeaseState, AttemptState, [None, *VmState]):
        found = explained(lease(state, attempt=attempt(kind, vm_state=vm), **changes), *offerings)
        assert found.situation.summary.endswith(".")
        assert "\n" not in found.situation.summary


@pytest.mark.parametrize("seconds", [-700, -1, 0, 1, 700])
@pytest.mark.parametrize("stopped", [False, True])
def test_no_wait_ends_in_the_past(seconds: int, stopped: bool) -> None:
    until = ahead(seconds)
    for state, kind, vm in product(LeaseState, AttemptState, [None, *VmState]):
        newest = attempt(kind, vm_state=vm, created_at=ago(800), starting_since=until - timedelta(seconds=300))
        since = {"wait_until": until, "running_at": until - timedelta(seconds=900), "launches_stopped": stopped}
        for offerings in ([offering()], [COOLING], []):
            found = explained(lease(state, attempt=newest, **since), *offerings).situation
            assert found.gives_up_at is None or found.gives_up_at > NOW
            assert found.code is not C.LAUNCHES_STOPPED or found.gives_up_at is None


def test_an_explanation_has_the_best_twenty_candidates() -> None:
    many = [offering(zone=f"us-east-1{n:02}") for n in range(30)]
    found = explained(lease(), *many)
    assert (len(found.candidates), found.candidates_count) == (20, 30)


def test_the_time_of_another_day_has_its_date() -> None:
    assert clock_time(ahead(60), NOW) == "12:01:00 UTC"
    assert clock_time(ahead(86_400), NOW) == "2026-06-02 12:00 UTC"


def test_a_ready_vm_is_waited_for_to_prove_its_gpus() -> None:
    ready = attempt(KNOWN, vm_state=VmState.RUNNING, proof_awaited_at=ago(20))
    waiting = explained(lease(LeaseState.BOOTING, attempt=ready)).situation
    again = explained(lease(LeaseState.BOOTING, attempt=replace(ready, gpu_rebooted_at=ago(5)))).situation
    assert "is ready; gpulease waits until it proves its GPUs" in waiting.summary
    assert (waiting.since, waiting.gives_up_at) == (ago(20), ahead(40))
    assert "has rebooted the VM" in again.summary
    assert again.since == ago(5)
