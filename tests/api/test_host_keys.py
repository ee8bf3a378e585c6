"""POST /v1/host-keys: what a VM tells is shown on its lease, once, and nobody else can tell anything."""

import secrets
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.domain.tokens import host_key_hash
from tests.api.conftest import Caller, MakeSettings, serving
from tests.api.fleet import Fleet

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGsX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW"
    "T+NC4v4af5uO5+tKfA+eFivOM1drMV7Oy7ZAaDe/UfU="
)


class Leased:
    """An active lease whose VM holds a token."""

    def __init__(self, fleet: Fleet, owner: Caller, lease_id: str) -> None:
        self._fleet = fleet
        self._owner = owner
        self.id = lease_id
        self.token = self.give_token(1)

    def give_token(self, n: int) -> str:
        token = secrets.token_hex(32)
        self._fleet.run(
            "UPDATE attempt SET host_key_hash = %s WHERE lease_id = %s AND n = %s", host_key_hash(token), self.id, n
        )
        return token

    async def tell(self, token: str | None, *keys: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with Caller(self._owner.app, None) as vm:
            return await vm.post("/v1/host-keys", json={"keys": list(keys)}, headers=headers)

    async def shown(self) -> Any:
        return (await self._owner.get(f"/v1/leases/{self.id}")).json()["connection"]["ssh_host_keys"]


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def leased(fleet: Fleet, alice: Caller) -> Leased:
    made = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    fleet.activate(made.json()["id"])
    return Leased(fleet, alice, made.json()["id"])


async def test_what_the_vm_tells_is_shown_and_told(leased: Leased, fleet: Fleet) -> None:
    assert await leased.shown() is None
    answer = await leased.tell(leased.token, ED25519, ECDSA)
    assert (answer.status_code, answer.content) == (204, b"")
    assert await leased.shown() == [ED25519, ECDSA]
    (event,) = fleet.run("SELECT data FROM event WHERE type = 'lease.host_keys'")
    assert event["data"] == {"n": 1, "keys": [ED25519, ECDSA]}


async def test_the_first_word_stands(leased: Leased) -> None:
    await leased.tell(leased.token, ED25519)
    assert (await leased.tell(leased.token, OTHER)).status_code == 401
    assert await leased.shown() == [ED25519]


async def test_every_wrong_token_gets_the_same_answer(leased: Leased, fleet: Fleet) -> None:
    await leased.tell(leased.token, ED25519)
    wrong = [None, "", "x", "f" * 64, leased.token.upper(), leased.token + "0", leased.token, "gpl_" + "0" * 60]
    answers = [await leased.tell(token, OTHER) for token in wrong]
    bodies = [{**answer.json(), "request_id": None} for answer in answers]
    assert [answer.status_code for answer in answers] == [401] * len(wrong)
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["code"] == "invalid_token"


@pytest.mark.parametrize("end", ["dead", "ending", "replaced"])
async def test_a_vm_that_is_over_tells_nothing_any_more(leased: Leased, fleet: Fleet, alice: Caller, end: str) -> None:
    if end == "ending":
        await alice.delete(f"/v1/leases/{leased.id}")
    else:
        fleet.run("UPDATE attempt SET state = 'dead', clean = true, ended_at = now(), billing_ended_at = now()")
    if end == "replaced":
        fleet.attempt(leased.id, 2)
    assert (await leased.tell(leased.token, OTHER)).status_code == 401
    assert await leased.shown() is None


async def test_after_a_replacement_only_the_new_vm_may_tell(leased: Leased, fleet: Fleet) -> None:
    fleet.run("UPDATE attempt SET state = 'dead', clean = true, ended_at = now(), billing_ended_at = now()")
    fleet.attempt(leased.id, 2)
    token = leased.give_token(2)
    assert (await leased.tell(leased.token, OTHER)).status_code == 401
    assert (await leased.tell(token, ED25519)).status_code == 204


async def test_a_token_opens_nothing_else_and_a_key_does_not_stand_for_it(leased: Leased, alice: Caller) -> None:
    async with Caller(alice.app, leased.token) as vm:
        assert (await vm.get("/v1/leases")).status_code == 401
    assert (await leased.tell(alice.key, ED25519)).status_code == 401


WRONG: list[tuple[list[Any], str]] = [
    ([], "/keys"),
    ([ED25519] * 2, "/keys"),
    ([ED25519, OTHER], "/keys"),
    ([f"{ED25519} root@host"], "/keys/0"),
    ([f"{ED25519}\n"], "/keys/0"),
    ([f"{ED25519}\n{OTHER}"], "/keys/0"),
    ([f" {ED25519}"], "/keys/0"),
    ([f"* {ED25519}"], "/keys/0"),
    ([f"@cert-authority * {ED25519}"], "/keys/0"),
    (["ssh-dss AAAAB3NzaC1kc3MAAACB"], "/keys/0"),
    (["ssh-ed25519 AAAA"], "/keys/0"),
    ([ED25519.replace("ssh-ed25519", "ssh-rsa")], "/keys/0"),
    (["ssh-rsa " + "A" * 5000], "/keys/0"),
    ([7], "/keys/0"),
]


@pytest.mark.parametrize(("keys", "pointer"), WRONG)
async def test_what_is_not_a_list_of_host_keys_is_refused_and_costs_no_token(
    leased: Leased, keys: list[Any], pointer: str
) -> None:
    answer = await leased.tell(leased.token, *keys)
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {pointer}
    assert (await leased.tell(leased.token, ED25519)).status_code == 204


async def test_guessing_is_limited_per_address_and_apart_from_logins(
    make_settings: MakeSettings, leased: Leased, alice: Caller
) -> None:
    async with serving(make_settings(login_rate_limit="3/hour")) as app:
        guesser = Caller(app, "f" * 64)
        statuses = [(await guesser.post("/v1/host-keys", json={"keys": [ED25519]})).status_code for _ in range(4)]
        locked = await guesser.post("/v1/host-keys", json={"keys": [ED25519]})
        assert statuses == [401, 401, 401, 429]
        assert (locked.status_code, locked.json()["code"]) == (429, "too_many_failed_logins")
        assert int(locked.headers["retry-after"]) > 0
        assert (await Caller(app, alice.key).get("/v1/me")).status_code == 200


async def test_the_api_reads_no_token_of_a_launch(app: FastAPI, leased: Leased, fleet: Fleet) -> None:
    with fleet.connection() as connection:
        connection.execute("SET ROLE gpulease_api")
        connection.execute("SELECT set_config('gpulease.tenant', '*', false)")
        assert connection.execute("SELECT host_key_hash FROM attempt").fetchall()
        allowed = connection.execute(
            "SELECT has_column_privilege('gpulease_api', 'attempt', 'token', 'SELECT') AS token, "
            "has_column_privilege('gpulease_api', 'attempt', 'host_key_hash', 'UPDATE') AS hash"
        ).fetchone()
    assert allowed == {"token": False, "hash": False}
