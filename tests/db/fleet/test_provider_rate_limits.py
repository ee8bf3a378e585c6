"""Rate buckets by the database's clock: a burst, then the rate, and slower after a throttling.

Statements of one transaction share one `now()`, so that waits are exact; time goes on by moving the row back.
"""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, update

from app.db.fleet import provider_rate_limits
from app.db.schema.tables import provider_bucket
from tests.db.store import Store, together

RATE: dict[str, float] = {"burst": 3, "per_second": 2}


def waits(connection: Connection, count: int, **rate: Any) -> list[float]:
    statement = provider_rate_limits.reserve("b", **{**RATE, **rate})
    return [float(connection.execute(*statement).one().wait_seconds) for _ in range(count)]


def takes(connection: Connection, count: int) -> list[bool]:
    return [connection.execute(*provider_rate_limits.take("b", **RATE)).first() is not None for _ in range(count)]


def pass_time(connection: Connection, seconds: float) -> None:
    pause = timedelta(seconds=seconds)
    connection.execute(
        update(provider_bucket).values(
            next_free=provider_bucket.c.next_free - pause, throttled_at=provider_bucket.c.throttled_at - pause
        )
    )


def slow_down(connection: Connection, pause: float) -> None:
    connection.execute(*provider_rate_limits.slow_down("b", **RATE, pause=pause))


def test_a_burst_goes_at_once_and_the_rest_at_the_rate_in_order_of_asking(store: Store) -> None:
    with store.database.begin() as connection:
        assert waits(connection, 6) == [0, 0, 0, 0.5, 1, 1.5]


def test_a_slot_is_a_time_of_the_database(store: Store) -> None:
    with store.database.begin() as connection:
        waits(connection, 3)
        row = connection.execute(*provider_rate_limits.reserve("b", **RATE)).one()
        assert row.slot_at - connection.execute(select(func.now())).scalar_one() == timedelta(seconds=0.5)


def test_an_idle_bucket_fills_up_to_its_burst_and_no_further(store: Store) -> None:
    with store.database.begin() as connection:
        waits(connection, 3)
        pass_time(connection, 1)
        assert waits(connection, 3) == [0, 0, 0.5]
        pass_time(connection, 1000)
        assert waits(connection, 4) == [0, 0, 0, 0.5]


def test_a_dear_call_takes_several_slots(store: Store) -> None:
    with store.database.begin() as connection:
        assert waits(connection, 2, cost=3) == [0, 1.5]


def test_taking_is_refused_instead_of_queued(store: Store) -> None:
    with store.database.begin() as connection:
        assert takes(connection, 5) == [True, True, True, False, False]
        pass_time(connection, 0.5)
        assert takes(connection, 2) == [True, False]


def test_taking_and_reserving_share_one_bucket(store: Store) -> None:
    with store.database.begin() as connection:
        assert takes(connection, 2) == [True, True]
        assert waits(connection, 2) == [0, 0.5]
        assert takes(connection, 1) == [False]


@pytest.mark.parametrize("used", [0, 1, 3])
def test_after_a_throttling_nobody_calls_for_the_pause_and_then_at_half_the_rate(store: Store, used: int) -> None:
    with store.database.begin() as connection:
        waits(connection, used)
        slow_down(connection, 10)
        assert takes(connection, 1) == [False]
        first, second, third = waits(connection, 3)
        assert first >= 10
        assert (second - first, third - second) == (1, 1)


def test_throttlings_of_one_moment_count_once_and_later_ones_double(store: Store) -> None:
    def factor(connection: Connection) -> float:
        return float(connection.execute(select(provider_bucket.c.slow_factor)).scalar_one())

    with store.database.begin() as connection:
        for _ in range(5):
            slow_down(connection, 1)
        assert factor(connection) == 2
        for expected in (4, 8, 16, 16):
            pass_time(connection, 2)
            slow_down(connection, 1)
            assert factor(connection) == expected


@pytest.mark.parametrize("use", [waits, takes])
def test_a_minute_without_throttling_brings_the_rate_back(store: Store, use: Any) -> None:
    with store.database.begin() as connection:
        slow_down(connection, 1)
        pass_time(connection, 59)
        use(connection, 1)
        pass_time(connection, 100)
        use(connection, 1)
        pass_time(connection, 100)
        assert waits(connection, 5) == [0, 0, 0, 0.5, 1]


def test_a_recovering_bucket_never_blocks(store: Store) -> None:
    """A bucket is nearly empty after a throttling. Its debt shrinks with the rate: no use waits longer than one interval."""
    rate = {"burst": 100, "per_second": 5}

    def take(connection: Connection) -> bool:
        return connection.execute(*provider_rate_limits.take("b", **rate)).first() is not None

    with store.database.begin() as connection:
        for _ in range(5):
            connection.execute(*provider_rate_limits.slow_down("b", **rate, pause=1))
            pass_time(connection, 2)
        pass_time(connection, 60)
        for factor in (16, 8, 4, 2, 1):
            assert take(connection), f"blocked at a factor of {factor}"
            pass_time(connection, factor / rate["per_second"])
        assert waits(connection, 1, **rate) == [0]


def test_buckets_do_not_share(store: Store) -> None:
    with store.database.begin() as connection:
        waits(connection, 5)
        assert connection.execute(*provider_rate_limits.reserve("other", **RATE)).one().wait_seconds == 0


def test_asking_at_once_gives_every_slot_once(store: Store) -> None:
    slow = {"burst": 4, "per_second": 0.001}
    taken = together(16, lambda _: store.first(provider_rate_limits.take("b", **slow)))
    assert sum(row is not None for row in taken) == 4
    slots = together(16, lambda _: store.first(provider_rate_limits.reserve("c", **slow)))
    waiting = sorted(row.wait_seconds for row in slots if row is not None and row.wait_seconds > 1)
    assert len(waiting) == 12
    assert all(later - earlier > 990 for earlier, later in pairwise(waiting))
