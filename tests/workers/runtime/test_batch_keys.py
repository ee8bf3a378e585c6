"""What a process remembers of the keys of launch batches."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event

from workers.runtime import batch_keys
from workers.runtime.batch_keys import BatchKeys

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


def test_threads_elect_one_leader_of_a_key_after_the_other_and_follow_it() -> None:
    keys, elections = BatchKeys(), 0

    def await_company(_: int) -> datetime | None:
        nonlocal elections
        with keys.electing("key"):
            followed = keys.follow("key", NOW)
            if followed is None:
                elections += 1
                Event().wait(0.02)
                keys.lead("key", SLOT, 20)
            return followed

    with ThreadPoolExecutor(8) as pool:
        followed = list(pool.map(await_company, range(16)))
    assert (elections, followed.count(SLOT)) == (1, 15)
