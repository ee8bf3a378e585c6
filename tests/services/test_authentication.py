"""Checked keys and what is remembered of them."""

import asyncio
from typing import Any

import pytest

from app.db.core.api_errors import DatabaseUnavailable
from app.domain.ids import KeyId
from app.services import key_format
from app.services.authentication import Authenticator, CheckedKey
from app.services.errors import Unauthenticated

KEY = key_format.generate(KeyId("key_01jz0000000000000000000000"))
OTHER = key_format.generate(KEY.key_id)


class Store:
    """Stands for the database: one key, and how often it was asked."""

    def __init__(self, **row: Any) -> None:
        self.asked = 0
        self.away = False
        self.row: dict[str, Any] | None = {
            "id": KEY.key_id,
            "tenant_id": None,
            "role": "operator",
            "name": "ops",
            "secret_hash": KEY.secret_hash,
            "previous_secret_hash": None,
            "seconds_left": None,
            "previous_seconds_left": None,
            **row,
        }

    async def fetch(self, tenant: str | None, query: Any, **parameters: Any) -> list[dict[str, Any]]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.away:
            raise DatabaseUnavailable
        return [self.row] if self.row is not None and parameters["key_id"] == self.row["id"] else []


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def authenticator(store: Store, clock: Clock) -> Authenticator:
    return Authenticator(store, cache_seconds=3, clock=clock)  # pyrefly: ignore[bad-argument-type]  # only `fetch` is used here


async def checks(door: Authenticator, text: str) -> CheckedKey | None:
    try:
        return await door.check(text)
    except Unauthenticated:
        return None


async def test_a_checked_key_is_believed_for_a_few_seconds_and_no_longer(clock: Clock) -> None:
    store = Store()
    door = authenticator(store, clock)
    for _ in range(3):
        assert await checks(door, KEY.text)
    assert store.asked == 1
    store.row = None
    clock.now += 2.9
    assert await checks(door, KEY.text)
    clock.now += 0.2
    assert not await checks(door, KEY.text)
    assert not door.has_worked(KEY.text)


async def test_many_requests_at_once_ask_once(clock: Clock) -> None:
    store = Store()
    door = authenticator(store, clock)
    assert all(await asyncio.gather(*(checks(door, KEY.text) for _ in range(20))))
    assert store.asked == 1


async def test_a_mistyped_key_asks_nobody(clock: Clock) -> None:
    store = Store()
    assert not await checks(authenticator(store, clock), KEY.text[:-1] + "~")
    assert store.asked == 0


async def test_a_refused_key_is_remembered_briefly(clock: Clock) -> None:
    store = Store()
    door = authenticator(store, clock)
    for _ in range(3):
        assert not await checks(door, OTHER.text)
    assert store.asked == 1
    clock.now += 4
    assert not await checks(door, OTHER.text)
    assert store.asked == 2


async def test_a_key_is_not_believed_past_its_expiry(clock: Clock) -> None:
    door = authenticator(Store(seconds_left=1.0), clock)
    found = await checks(door, KEY.text)
    assert found is not None
    assert found.believed_until == clock.now + 1.0


@pytest.mark.parametrize(("seconds", "works"), [(5.0, True), (0.0, False), (-1.0, False)])
async def test_the_secret_before_works_until_its_time_is_over(clock: Clock, seconds: float, *, works: bool) -> None:
    store = Store(previous_secret_hash=OTHER.secret_hash, previous_seconds_left=seconds)
    door = authenticator(store, clock)
    assert bool(await checks(door, OTHER.text)) == works
    assert await checks(door, KEY.text)


async def test_a_database_that_is_away_is_not_a_wrong_key(clock: Clock) -> None:
    store = Store()
    store.away = True
    door = authenticator(store, clock)
    with pytest.raises(DatabaseUnavailable):
        await door.check(KEY.text)
    store.away = False
    assert await checks(door, KEY.text)
