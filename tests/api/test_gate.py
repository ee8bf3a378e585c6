"""What every request passes first, with no application behind it."""

import asyncio
from typing import Any

import pytest
from fastapi import Request

from app.api.http.auth import REQUEST_ID, SUSPICIOUS_LOOKUPS, Gate
from app.api.http.fair_queue import RequestQueue, Share
from app.api.http.rate_limits import RateLimiter
from app.domain.ids import KeyId
from app.services import key_format
from app.services.authentication import Authenticator
from app.services.errors import InvalidToken, TooManyFailedLogins, Unauthenticated

KEY = key_format.generate(KeyId("key_01jz0000000000000000000000"))
FLOOD = 50


class Lookups:
    """Stands for the database: how many look-ups there were, and how many at once."""

    def __init__(self) -> None:
        self.asked = self.at_once = self.most_at_once = 0

    async def fetch(self, tenant: str | None, query: Any, **parameters: Any) -> list[dict[str, Any]]:
        """The one key, whose secret only its owner knows."""
        await self._look()
        row = {"id": KEY.key_id, "tenant_id": None, "role": "operator", "name": "ops", "secret_hash": KEY.secret_hash}
        return [{**row, "previous_secret_hash": None, "seconds_left": None, "previous_seconds_left": None}]

    async def is_known(self, token: str) -> bool:
        await self._look()
        return token == KEY.secret

    async def _look(self) -> None:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1


@pytest.fixture
def lookups() -> Lookups:
    return Lookups()


@pytest.fixture
def gate(lookups: Lookups) -> Gate:
    """A gate that locks an address out after one failure."""
    many, one, other = (RateLimiter(rule, name="t") for rule in ("1000/hour", "1/hour", "1/hour"))
    queue = RequestQueue(Share.of_pool(16))
    authenticator = Authenticator(lookups, cache_seconds=60)  # pyrefly: ignore[bad-argument-type]  # only `fetch` is used here
    return Gate(authenticator, requests=many, writes=many, failures=one, strangers=other, reports=many, queue=queue)


def request(token: str) -> Request:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return Request({"type": "http", "headers": headers, "client": ("192.0.2.7", 1), REQUEST_ID: "req_1"})


def made_up() -> str:
    return key_format.generate(KEY.key_id).text


async def test_made_up_keys_from_a_locked_out_address_are_looked_up_a_few_at_a_time(
    gate: Gate, lookups: Lookups
) -> None:
    with pytest.raises(Unauthenticated):
        await gate.admit(request("wrong"))
    asked = [gate.admit(request(made_up())) for _ in range(FLOOD)]
    *refused, admitted = await asyncio.gather(*asked, gate.admit(request(KEY.text)), return_exceptions=True)
    assert {type(one) for one in refused} == {TooManyFailedLogins}
    assert not isinstance(admitted, BaseException)
    assert admitted.key_id == KEY.key_id
    assert (lookups.asked, lookups.most_at_once) == (FLOOD + 1, SUSPICIOUS_LOOKUPS)


async def test_a_key_that_has_worked_does_not_wait_behind_made_up_ones(gate: Gate, lookups: Lookups) -> None:
    await gate.admit(request(KEY.text))
    with pytest.raises(Unauthenticated):
        await gate.admit(request("wrong"))
    flood = asyncio.gather(*(gate.admit(request(made_up())) for _ in range(FLOOD)), return_exceptions=True)
    await gate.admit(request(KEY.text))
    assert lookups.asked < FLOOD
    await flood


async def test_made_up_tokens_from_a_locked_out_address_are_looked_up_a_few_at_a_time(
    gate: Gate, lookups: Lookups
) -> None:
    with pytest.raises(InvalidToken):
        await gate.admit_token(request("wrong"), lookups.is_known)
    tokens = [*(f"made up {n}" for n in range(FLOOD)), KEY.secret]
    asked = [gate.admit_token(request(token), lookups.is_known) for token in tokens]
    *refused, admitted = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(one) for one in refused} == {TooManyFailedLogins}
    assert admitted is None
    assert lookups.most_at_once == SUSPICIOUS_LOOKUPS
