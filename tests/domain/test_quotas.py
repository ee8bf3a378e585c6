"""What a lease counts for, and what is allowed."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.quotas import Shortage, allowed, amounts, is_valid_resource, minimum, shortages
from app.domain.vm_parts import DEFAULT_PARTS
from tests.domain.samples import offering

numbers = st.decimals(min_value=0, max_value=1000, places=2)


def test_a_lease_counts_gpus_by_model_too_and_its_price() -> None:
    assert amounts(offering(model="A100", count=8, price="21.96"), DEFAULT_PARTS) == {
        "gpus": 8,
        "gpus:A100": 8,
        "leases": 1,
        "spend_per_hour": Decimal("21.96"),
    }


def test_what_costs_nothing_counts_for_no_spend() -> None:
    assert "spend_per_hour" not in amounts(offering(price="0"), DEFAULT_PARTS)


def test_without_a_price_nothing_can_be_counted() -> None:
    with pytest.raises(ValueError, match="price"):
        amounts(offering(price=None), DEFAULT_PARTS)


def test_admission_claims_the_least_that_any_candidate_needs() -> None:
    small, big = offering(model="A100", count=1, price="4"), offering(model="A100", count=8, price="3")
    assert minimum([small, big], DEFAULT_PARTS) == {"gpus": 1, "gpus:A100": 1, "leases": 1, "spend_per_hour": 3}


def test_what_not_every_candidate_needs_is_claimed_only_once_chosen() -> None:
    claimed = minimum(
        [offering(model="A100"), offering(model="H100"), offering(model="H100", price="0")], DEFAULT_PARTS
    )
    assert claimed == {"gpus": 1, "leases": 1}


def test_nothing_is_claimed_for_no_candidate() -> None:
    assert minimum([], DEFAULT_PARTS) == {}


@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), st.integers(1, 16), numbers), min_size=1, max_size=6))
def test_the_minimum_never_exceeds_any_candidate_and_holds_no_zero(rows: list[tuple[str, int, Decimal]]) -> None:
    offerings = [offering(model=model, count=count, price=str(price)) for model, count, price in rows]
    least = minimum(offerings, DEFAULT_PARTS)
    assert all(amount > 0 for amount in least.values())
    for one in offerings:
        needs = amounts(one, DEFAULT_PARTS)
        assert all(amount <= needs.get(name, 0) for name, amount in least.items())


@pytest.mark.parametrize(
    ("resource", "fits"), [("gpus", False), ("gpus:A100", True), ("leases", True), ("spend_per_hour", True)]
)
def test_without_a_limit_only_gpus_are_forbidden(resource: str, *, fits: bool) -> None:
    assert allowed(resource, limit=None, used=Decimal(0), delta=Decimal(1)) is fits


@given(used=numbers, limit=numbers, delta=numbers)
def test_use_may_reach_the_limit_and_never_pass_it(used: Decimal, limit: Decimal, delta: Decimal) -> None:
    assert allowed("gpus", limit=limit, used=used, delta=delta) == (delta == 0 or used + delta <= limit)


@given(used=numbers, limit=st.none() | numbers, delta=numbers)
def test_giving_back_is_always_allowed(used: Decimal, limit: Decimal | None, delta: Decimal) -> None:
    assert allowed("gpus", limit=limit, used=used, delta=-delta)


def test_every_resource_that_does_not_fit_is_named_in_order() -> None:
    limits = {"leases": Decimal(3), "gpus:A100": Decimal(8)}
    used = {"leases": Decimal(3), "gpus:A100": Decimal(4)}
    wanted = {"leases": Decimal(1), "gpus": Decimal(4), "gpus:A100": Decimal(4), "spend_per_hour": Decimal(9)}
    assert shortages(limits, used, wanted) == [
        Shortage(resource="gpus", limit=None, used=Decimal(0), asked=Decimal(4)),
        Shortage(resource="leases", limit=Decimal(3), used=Decimal(3), asked=Decimal(1)),
    ]


@pytest.mark.parametrize(
    ("resource", "valid"),
    [
        ("gpus", True),
        ("leases", True),
        ("spend_per_hour", True),
        ("gpus:A100", True),
        ("gpus:", False),
        ("", False),
        ("gpu", False),
        ("GPUS", False),
        ("leases:x", False),
    ],
)
def test_only_the_four_kinds_of_resource_are_known(resource: str, *, valid: bool) -> None:
    assert is_valid_resource(resource) is valid
