"""What billed time costs."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.billing import PriceChange, closed_cost, cost, ran_until
from app.domain.rates import Rate

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SEEN, DEADLINE = START, START + 2 * HOUR


@pytest.mark.parametrize(
    ("price", "duration", "usd"),
    [
        ("21.96", timedelta(hours=1), "21.96"),
        ("3.60", timedelta(seconds=1), "0.001"),
        ("3.60", timedelta(microseconds=500_000), "0.0005"),
        ("1", timedelta(0), "0"),
        ("1", timedelta(hours=-1), "0"),
    ],
)
def test_a_price_per_hour_becomes_an_amount(price: str, duration: timedelta, usd: str) -> None:
    assert cost(Decimal(price), duration) == Decimal(usd)


def test_what_is_stored_is_rounded_to_a_millionth() -> None:
    assert closed_cost(Rate(compute=Decimal(1)), START, START + timedelta(seconds=1)) == Decimal("0.000278")


def test_an_attempt_that_was_never_billed_costs_nothing() -> None:
    assert closed_cost(Rate(compute=Decimal("21.96")), None, START) == 0


def test_disks_and_the_address_cost_the_whole_time_and_compute_its_price_of_the_moment() -> None:
    rate = Rate(compute=Decimal(10), disk=Decimal("0.5"), address=Decimal("0.005"))
    changes = [change(2, 20), change(1, 4)]
    assert closed_cost(rate, START, START + 3 * HOUR, changes) == Decimal("35.515")


def test_a_change_after_the_end_of_billing_costs_nothing() -> None:
    assert closed_cost(Rate(compute=Decimal(10)), START, START + HOUR, [change(2, 1000)]) == 10


@given(
    st.lists(st.tuples(st.timedeltas(-HOUR, 5 * HOUR), st.integers(0, 1000))),
    st.timedeltas(timedelta(0), 4 * HOUR),
)
def test_the_price_of_each_second_is_that_of_the_last_change_before_it(
    points: list[tuple[timedelta, int]], length: timedelta
) -> None:
    changes = {START + at: Decimal(price) for at, price in points}
    edges = sorted({START, START + length, *(at for at in changes if START < at < START + length)})
    exact = Decimal(0)
    for since, until in pairwise(edges):
        past = [at for at in changes if at <= since]
        exact += cost(changes[max(past)] if past else Decimal(7), until - since)
    found = closed_cost(
        Rate(compute=Decimal(7)),
        START,
        START + length,
        [PriceChange(starts_at=at, price_per_hour=price) for at, price in changes.items()],
    )
    assert abs(found - exact) <= Decimal("0.000001")


def change(hours: int, price: int) -> PriceChange:
    return PriceChange(starts_at=START + hours * HOUR, price_per_hour=Decimal(price))


@pytest.mark.parametrize(
    ("facts", "until"),
    [
        ({}, DEADLINE),
        ({"seen_at": None}, DEADLINE),
        ({"seen_at": DEADLINE + MINUTE}, DEADLINE + MINUTE),
        ({"looked_at": DEADLINE}, DEADLINE),
        ({"looked_at": DEADLINE - MINUTE}, SEEN),
        ({"deadline": None}, SEEN),
        ({"term_in_doubt": True}, SEEN),
        ({"market": "reserved"}, DEADLINE),
        ({"market": "spot"}, SEEN),
        ({"terminate_sent_at": DEADLINE - MINUTE}, SEEN),
        ({"terminate_sent_at": DEADLINE + MINUTE}, DEADLINE),
    ],
)
def test_a_vm_that_went_unseen_ran_until_its_deadline_when_nothing_else_can_have_ended_it(
    facts: dict[str, Any], until: datetime
) -> None:
    usual: dict[str, Any] = {
        "seen_at": SEEN,
        "deadline": DEADLINE,
        "term_in_doubt": False,
        "market": "on_demand",
        "terminate_sent_at": None,
        "looked_at": DEADLINE + 60 * MINUTE,
    }
    assert ran_until(**{**usual, **facts}) == until
