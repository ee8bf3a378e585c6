"""Request rates as settings write them."""

import pytest

from app.domain.request_rates import RequestRate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("600/minute", RequestRate(600, 60)),
        ("1/second", RequestRate(1, 1)),
        ("3600/hour", RequestRate(3600, 3600)),
        ("5/day", RequestRate(5, 86_400)),
    ],
)
def test_a_rate_is_a_count_in_a_period(text: str, rate: RequestRate) -> None:
    assert RequestRate.parse(text) == rate


@pytest.mark.parametrize(
    "text", ["", "600", "600/", "/minute", "0/minute", "-1/minute", "600/week", "600 / minute", "1.5/hour"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 600/minute"):
        RequestRate.parse(text)
