"""Spend caps: a lease ends when its cost reaches `max_cost`, and is not placed where that does not last a minute."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from app.domain.explanations.placement_failure import why_exhausted
from app.domain.lease_offerings import for_term, term_of
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import Desired, Lease, LeaseState, VmState
from app.domain.lifecycle import BeginRelease, RenewDeadline, Rest, deadline, decide
from app.domain.placement import Exclusion, Ranking
from app.domain.reasons import ReasonCode
from tests.domain.samples import NOW, TIMING, ahead, attempt, lease, offering

CAPPED: dict[str, Any] = {"max_cost": Decimal(5), "expires_at": ahead(3600)}


def active(**changes: Any) -> Lease:
    base = lease(LeaseState.ACTIVE, attempt=attempt(vm_state=VmState.RUNNING, ready=True), ready_at=NOW, **CAPPED)
    at_end = replace(base, **changes)
    return replace(at_end, deadline_applied=deadline(at_end, TIMING))


def test_the_effective_end_is_the_first_of_expiry_and_cap() -> None:
    assert active().ends_at == ahead(3600)
    assert active(cost_reached_at=ahead(600)).ends_at == ahead(600)
    assert active(cost_reached_at=ahead(7200)).ends_at == ahead(3600)


def test_a_lease_rests_until_its_cap_is_reached_and_then_ends() -> None:
    assert decide(active(cost_reached_at=ahead(600)), NOW, TIMING) == Rest(ahead(600))
    step = decide(active(cost_reached_at=NOW), NOW, TIMING)
    assert isinstance(step, BeginRelease)
    assert (step.reason.code, step.reason.message) == (ReasonCode.SPEND_CAP, "the cost has reached max_cost, 5.00 USD")


def test_the_deadline_follows_the_effective_end() -> None:
    capped = replace(active(), cost_reached_at=ahead(600))
    assert decide(capped, NOW, TIMING) == RenewDeadline()
    assert deadline(capped, TIMING) == ahead(600 + TIMING.deadline_grace)


def test_while_the_term_is_in_doubt_a_cap_ends_nothing() -> None:
    step = decide(active(cost_reached_at=NOW, term_in_doubt=True), NOW, TIMING)
    assert isinstance(step, Rest)
    assert step.until is not None
    assert step.until > NOW


def test_a_lease_that_ends_already_goes_on_ending() -> None:
    ending = replace(active(cost_reached_at=NOW), state=LeaseState.RELEASING, desired=Desired.END)
    assert not isinstance(decide(ending, NOW, TIMING), BeginRelease)


@pytest.mark.parametrize(
    ("cap", "closed", "left"), [(None, "3", None), ("5", "3", "2"), ("5", "5", "0"), ("5", "6", "0")]
)
def test_what_the_next_vm_may_cost(cap: str | None, closed: str, left: str | None) -> None:
    capped = active(max_cost=None if cap is None else Decimal(cap), cost_closed=Decimal(closed))
    assert capped.spendable == (None if left is None else Decimal(left))


@pytest.mark.parametrize(("left", "fits"), [("1.00", True), ("0.99", False), (None, True)])
def test_what_the_cap_does_not_pay_for_a_minute_is_excluded(left: str | None, fits: bool) -> None:
    priced = replace(offering(price="59.93"), disk_price_per_gib_month=Decimal("0.0511"))  # 60 USD an hour in all
    term = term_of(
        LeaseRequest(name="t", instance_types=("g5.xlarge",), ttl_seconds=3600, disk_gib=1000),
        "tenant_a",
        NOW,
        spendable=None if left is None else Decimal(left),
    )
    ranking = for_term(Ranking(candidates=(priced,), excluded=()), term, NOW, launching=True)
    assert bool(ranking.candidates) is fits
    if not fits:
        assert [one.code for one in ranking.excluded] == [Exclusion.SPEND_CAP]
        assert why_exhausted(ranking, [], 0).code is ReasonCode.SPEND_CAP
