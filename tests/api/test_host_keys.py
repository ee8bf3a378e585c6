"""POST /v1/host-keys: what a VM tells is shown on its lease, once, and nobody else can tell anything."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import FastAPI

from app.api.http.routing import OneTimeRoute
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
        return self._fleet.give_token(self.id, n)

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
    ([], "#/body/keys"),
    ([ED25519] * 2, "#/body/keys"),
    ([ED25519, OTHER], "#/body/keys"),
    ([f"{ED25519} root@host"], "#/body/keys/0"),
    ([f"{ED25519}\n"], "#/body/keys/0"),
    ([f"{ED25519}\n{OTHER}"], "#/body/keys/0"),
    ([f" {ED25519}"], "#/body/keys/0"),
    ([f"* {ED25519}"], "#/body/keys/0"),
    ([f"@cert-authority * {ED25519}"], "#/body/keys/0"),
    (["ssh-dss AAAAB3NzaC1kc3MAAACB"], "#/body/keys/0"),
    (["ssh-ed25519 AAAA"], "#/body/keys/0"),
    ([ED25519.replace("ssh-ed25519", "ssh-rsa")], "#/body/keys/0"),
    (["ssh-rsa " + "A" * 5000], "#/body/keys/0"),
    ([7], "#/body/keys/0"),
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


async def test_a_valid_token_is_let_in_from_a_locked_out_address(
    make_settings: MakeSettings, leased: Leased, alice: Caller
) -> None:
    async with serving(make_settings(login_rate_limit="3/hour")) as app:
        for token, status in [
            ("x", 401),
            ("f" * 64, 401),
            ("x", 401),
            ("x", 429),
            ("e" * 64, 429),
            (leased.token, 204),
        ]:
            answer = await Caller(app, token).post("/v1/host-keys", json={"keys": [ED25519]})
            assert answer.status_code == status, token
    assert await leased.shown() == [ED25519]


LARGEST_REPORT = OneTimeRoute.largest_body


class Body:
    """Sends itself in pieces, and counts the bytes that were asked for."""

    def __init__(self, pieces: int, piece: bytes = b" " * 1024) -> None:
        self.pieces, self.piece = pieces, piece
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            self.sent += len(self.piece)
            yield self.piece


@pytest.mark.parametrize("token", [None, "", "x", "f" * 64])
async def test_the_body_of_an_unknown_caller_is_not_read(app: FastAPI, token: str | None) -> None:
    body = Body(1024)
    headers = {"Content-Type": "application/json"}
    answer = await Caller(app, token).post("/v1/host-keys", content=body, headers=headers)
    assert (answer.status_code, body.sent) == (401, 0)


async def test_no_more_is_read_than_host_keys_need(leased: Leased, app: FastAPI) -> None:
    headers = {"Content-Type": "application/json"}
    async with Caller(app, leased.token) as vm:
        body = Body(1024)
        answer = await vm.post("/v1/host-keys", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert body.sent <= LARGEST_REPORT + len(body.piece)
        announced = await vm.post("/v1/host-keys", content=b" " * (LARGEST_REPORT + 1), headers=headers)
        assert announced.status_code == 413
        assert (await vm.post("/v1/host-keys", json={"keys": [ED25519]})).status_code == 204


async def test_the_largest_keys_fit_into_a_report(leased: Leased) -> None:
    """Every type that is taken, RSA of the greatest length that a key may have."""
    rsa = _public_text(RSAPublicNumbers(65537, (1 << 16_383) + 1).public_key())
    curves = [
        _public_text(ec.generate_private_key(curve()).public_key())
        for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
    ]
    assert (await leased.tell(leased.token, ED25519, rsa, *curves)).status_code == 204


def _public_text(key: Any) -> str:
    return str(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


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
