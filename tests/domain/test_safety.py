"""Rules that tell a real loss from a mistaken view of the world."""

import pytest

from app.domain.safety import is_from_the_future, too_many
from tests.domain.samples import LEASE

OLDER, NEWER = "lease_01jy0000000000000000000000", "lease_01k00000000000000000000000"


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


def test_an_attempt_that_the_lease_has_not_had_is_from_the_future() -> None:
    assert not is_from_the_future((LEASE, 2), {LEASE: 2}, LEASE)
    assert is_from_the_future((LEASE, 3), {LEASE: 2}, LEASE)


def test_an_unknown_lease_newer_than_all_is_from_the_future() -> None:
    assert is_from_the_future((NEWER, 1), {}, LEASE)
    assert not is_from_the_future((OLDER, 1), {}, LEASE)


def test_in_an_empty_database_every_lease_is_from_the_future() -> None:
    assert is_from_the_future((OLDER, 1), {}, None)


@pytest.mark.parametrize("text", ["", "zzz", "lease_zzz", "tenant_7zzzzzzzzzzzzzzzzzzzzzzzzz"])
def test_a_tag_that_is_no_lease_id_proves_nothing(text: str) -> None:
    assert not is_from_the_future((text, 1), {}, LEASE)
