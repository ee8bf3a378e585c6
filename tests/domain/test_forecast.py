"""When a budget is exhausted, and what a month costs at the present rate."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from app.domain.forecast import exhausted_at, month_forecast

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
ENDS = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spent", "rate", "ends_at", "expected"),
    [
        ("40", "10", ENDS, AT + timedelta(hours=6)),
        ("40", "10", AT + timedelta(hours=6), None),
        ("40", "10", None, AT + timedelta(hours=6)),
        ("100", "10", ENDS, AT),
        ("101", "0", ENDS, AT),
        ("40", "0", None, None),
        ("40", "0.000001", None, None),
    ],
)
def test_when_a_budget_is_exhausted(spent: str, rate: str, ends_at: datetime | None, expected: datetime | None) -> None:
    facts = {"spent": Decimal(spent), "rate_per_hour": Decimal(rate)}
    assert exhausted_at(Decimal(100), **facts, as_of=AT, period_ends_at=ends_at) == expected


def test_the_month_at_the_present_rate() -> None:
    assert month_forecast(Decimal(5), Decimal(2), ENDS - timedelta(hours=3), ENDS) == 11
