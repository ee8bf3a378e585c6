"""What a process remembers of the keys of launch batches."""

from datetime import UTC, datetime, timedelta

from workers.lifecycle import batch_keys
from workers.lifecycle.batch_keys import BatchKeys

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SLOT = NOW + timedelta(seconds=1)


def test_a_leader_is_followed_until_it_has_no_room() -> None:
    keys = BatchKeys()
    keys.lead("key", SLOT, 2)
    assert [keys.follow("key", NOW) for _ in range(3)] == [SLOT, SLOT, None]
    assert keys.follow("another key", NOW) is None


def test_nobody_follows_a_leader_that_gathers_or_whose_slot_has_come() -> None:
    keys = BatchKeys()
    keys.lead("key", SLOT, 9)
    assert keys.follow("key", SLOT) is None
    keys.gather("key")
    assert keys.follow("key", NOW) is None


def test_the_oldest_keys_are_forgotten() -> None:
    keys = BatchKeys()
    for number in range(batch_keys._MOST_KEYS + 1):
        keys.planned(str(number))
    assert [keys.is_planned(number) for number in ("0", "1", str(batch_keys._MOST_KEYS))] == [False, True, True]
