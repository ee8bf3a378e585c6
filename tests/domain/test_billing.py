"""What billed time costs."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from app.domain.billing import closed_cost, cost

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


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
    assert closed_cost(Decimal(1), START, START + timedelta(seconds=1)) == Decimal("0.000278")


def test_an_attempt_that_was_never_billed_costs_nothing() -> None:
    assert closed_cost(Decimal("21.96"), None, START) == 0
