"""What keeps a lease from launching at each candidate."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.domain.cool_off import CoolOffReason
from app.domain.explanations.candidate_verdicts import (
    COOL_OFF_TEXTS,
    CandidateVerdict,
    JudgedCandidate,
    OfferingAttempt,
    PlacementFacts,
    QuotaState,
    cool_off_text,
    judge,
)
from app.domain.offerings import CoolOff, Offering
from app.domain.reservations import Reservation, Term
from app.domain.vm_parts import PartsRequest
from tests.domain.samples import NOW, ago, ahead, cool_off, offering

V = CandidateVerdict
HERE = offering()
TERM = Term(
    tenant_id="tenant_a",
    expires_at=ahead(3600),
    wait_until=ahead(60),
    waits=timedelta(seconds=60),
    parts=PartsRequest(disk_gib=0),
)
PLENTY = QuotaState(limits={"gpus": Decimal(100)})
WORDS = "arn:aws:iam::123456789012:role/x is not authorized"


def placement(**changes: Any) -> PlacementFacts:
    facts: dict[str, Any] = {
        "looking_since": ago(100),
        "term": TERM,
        "quota": PLENTY,
        "unlisted": {},
        "tried": frozenset(),
        "attempts": {},
    }
    return PlacementFacts(now=NOW, **(facts | changes))


def an_attempt(*, live: bool) -> OfferingAttempt:
    error = None if live else {"class": "InsufficientCapacity", "code": "NoRoom", "message": WORDS}
    return OfferingAttempt(n=3, live=live, created_at=ago(20), ended_at=None if live else ago(10), error=error)


def judged(facts: PlacementFacts, *candidates: Offering) -> list[JudgedCandidate]:
    return list(judge(facts, candidates))


def test_every_cool_off_reason_has_a_text() -> None:
    assert COOL_OFF_TEXTS.keys() == set(CoolOffReason)


@pytest.mark.parametrize(
    ("facts", "candidate", "verdict"),
    [
        ({}, HERE, V.FREE),
        ({"attempts": {HERE.key: an_attempt(live=True)}}, HERE, V.LAUNCHING),
        ({"attempts": {HERE.key: an_attempt(live=False)}, "tried": frozenset({HERE.key})}, HERE, V.REFUSED),
        ({"quota": QuotaState()}, HERE, V.OVER_QUOTA),
        ({"unlisted": {("main", "us-east-1"): False}}, HERE, V.REGION_NOT_LISTED),
        ({}, offering(cool_off=cool_off(ahead(9))), V.COOLING_OFF),
        ({}, offering(cool_off=cool_off(ago(9))), V.FREE),
        ({"quota": QuotaState()}, offering(cool_off=cool_off(ahead(9))), V.OVER_QUOTA),
        ({}, offering(reservation=Reservation(name="lab", kind="block", slots=1, free=0)), V.NO_SLOT),
        ({}, offering(reservation=Reservation(name="lab", kind="block", slots=1, free=1)), V.FREE),
    ],
)
def test_the_obstacle_that_lasts_longest_is_shown(
    facts: dict[str, Any], candidate: Offering, verdict: CandidateVerdict
) -> None:
    [found] = judged(placement(**facts), candidate)
    assert found.verdict is verdict
    assert found.message
    assert (found.cool_off_until is not None) == candidate.cooling(NOW)


def test_what_the_lease_reserves_already_counts_as_free() -> None:
    eight = {"gpus": Decimal(8)}
    full = {"limits": eight, "used": eight}
    big = offering(count=8)
    mine, others = QuotaState(**full, reserved=eight), QuotaState(**full)
    assert (mine.free("gpus"), others.free("gpus"), others.free("leases")) == (Decimal(8), Decimal(0), None)
    [fits] = judged(placement(quota=mine), big)
    [short] = judged(placement(quota=others), big)
    assert (fits.verdict, short.verdict) == (V.FREE, V.OVER_QUOTA)
    assert short.message == "it needs 8 gpus, and the quota has 0 left"


def test_a_minute_long_a_much_more_expensive_candidate_waits_for_one_without_a_listing() -> None:
    cheap, same, dear = offering("a", region="eu", price="1"), offering("b", price="1.5"), offering("c", price="1.6")
    unlisted = {("main", "eu"): False}
    new, old = (placement(unlisted=unlisted, looking_since=ago(age)) for age in (59, 60))
    assert [c.verdict for c in judged(new, cheap, same, dear)] == [V.REGION_NOT_LISTED, V.FREE, V.WAITS_FOR_CHEAPER]
    assert [c.verdict for c in judged(old, cheap, same, dear)] == [V.REGION_NOT_LISTED, V.FREE, V.FREE]


def test_the_last_attempt_is_shown_with_its_time() -> None:
    over = an_attempt(live=False)
    [found] = judged(placement(attempts={HERE.key: over}), HERE)
    assert (found.last_attempt, found.since) == (over, ago(10))
    assert WORDS not in found.message


@pytest.mark.parametrize(
    ("reason", "code", "text"),
    [
        ("no_capacity", "NoRoom", "in cool-off: the provider had no capacity (NoRoom)"),
        ("no_capacity", "role 123456789012", "in cool-off: the provider had no capacity"),
        ("of a later version", None, "in cool-off: it refused a launch"),
    ],
)
def test_a_cool_off_names_its_cause_and_no_identifier(reason: str, code: str | None, text: str) -> None:
    assert cool_off_text(CoolOff(until=NOW, reason=reason, code=code, count=1)) == text
