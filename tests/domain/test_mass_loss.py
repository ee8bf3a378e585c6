"""Rules that tell a real loss from a mistaken view of the world."""

import pytest

from app.domain.mass_loss import too_many


@pytest.mark.parametrize(
    ("lost", "live", "braked"),
    [
        (0, 0, False),
        (5, 5, False),
        (6, 6, True),
        (6, 100, True),
        (6, 120, False),
        (500, 10_000, False),
        (501, 10_000, True),
    ],
)
def test_more_than_five_and_five_percent_at_once_is_not_believed(lost: int, live: int, *, braked: bool) -> None:
    assert too_many(lost, live) is braked
