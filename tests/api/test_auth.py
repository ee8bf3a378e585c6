"""Keys at the door."""

from collections.abc import Callable
from itertools import count

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from app.api.http import middleware
from app.domain.ids import KeyId
from app.prerequisites import ensure_operator_key
from app.services import key_format
from app.settings import Settings
from tests.api.conftest import Caller, new_tenant, serving
from tests.harness.lines import written_by

STRANGER = key_format.generate(KeyId("key_01jz0000000000000000000000")).text


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic b3BlcmF0b3I6",
        "Bearer nonsense",
        "Bearer gpl_x_y",
        f"Bearer {STRANGER}",
        f"Bearer {STRANGER[:-1]}~",
        "Bearer gpl_é",
    ],
    ids=map(str, count()),  # the stranger's key is made anew in each process
)
async def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(
    anonymous: Caller, authorization: str | None
) -> None:
    plain = await anonymous.get("/v1/me")
    headers = {} if authorization is None else {b"Authorization": authorization.encode()}
    refused = await anonymous.get("/v1/me", headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    without_id = {"request_id": ""}
    assert refused.json() | without_id == plain.json() | without_id
    assert refused.json()["code"] == "unauthenticated"


async def test_a_key_says_who_it_is(operator: Caller, alice: Caller) -> None:
    assert (await operator.get("/v1/me")).json()["tenant_id"] is None
    me = (await alice.get("/v1/me")).json()
    assert (me["role"], me["tenant_id"], me["key_name"]) == ("admin", alice.tenant_id, "admin")


async def test_an_unknown_caller_makes_us_read_no_body(anonymous: Caller) -> None:
    refused = await anonymous.post("/v1/tenants", content=b"{nonsense", headers={"Content-Type": "application/json"})
    assert refused.status_code == 401


async def test_the_role_is_checked_before_the_body_and_the_id(alice: Caller) -> None:
    assert (await alice.post("/v1/tenants", json={"nonsense": 1})).json()["code"] == "forbidden"
    assert (await alice.patch("/v1/tenants/nonsense")).json()["code"] == "forbidden"


async def test_a_revoked_key_is_refused_by_the_process_that_knew_it(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    async with serving(make_settings(key_cache_seconds=0)) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice = await new_tenant(operator, "alice", gpus=1)
        me = (await alice.get("/v1/me")).json()
        assert (await operator.delete(f"/v1/keys/{me['key_id']}")).status_code == 200
        assert (await alice.get("/v1/me")).status_code == 401


async def test_an_expired_key_is_refused(alice: Caller, app: FastAPI, database_url: str) -> None:
    made = await alice.post(
        f"/v1/tenants/{alice.tenant_id}/keys",
        json={"name": "short", "role": "viewer", "expires_at": "2999-01-01T00:00:00Z"},
    )
    assert made.status_code == 201
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute("UPDATE api_key SET expires_at = now() WHERE id = %s", [made.json()["id"]])
    assert (await Caller(app, made.json()["secret"]).get("/v1/me")).status_code == 401


async def test_the_last_use_of_a_key_is_noted(alice: Caller, app: FastAPI) -> None:
    await alice.get("/v1/me")
    await app.state.services.authenticator.write_uses()
    listed = (await alice.get(f"/v1/tenants/{alice.tenant_id}/keys")).json()["items"]
    assert listed[0]["last_used_at"] is not None


async def test_an_address_that_fails_too_often_is_locked_out_and_its_good_keys_are_not(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    used, unused = (ensure_operator_key(database_url, None) for _ in range(2))
    async with serving(make_settings(login_rate_limit="3/hour")) as app:
        assert (await Caller(app, used).get("/v1/me")).status_code == 200
        locked = await lock_out(Caller(app, None))
        assert locked.json()["code"] == "too_many_failed_logins"
        assert int(locked.headers["retry-after"]) > 0
        for key in (used, unused):
            assert (await Caller(app, key).get("/v1/me")).status_code == 200


async def test_unknown_keys_of_a_valid_form_count_as_failed_logins(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    key = ensure_operator_key(database_url, None)
    async with serving(make_settings(login_rate_limit="3/hour")) as app:
        stranger = Caller(app, None)
        made_up = [key_format.generate(KeyId("key_01jz0000000000000000000000")).text for _ in range(5)]
        statuses = [(await stranger.get("/v1/me", headers=bearer(text))).status_code for text in made_up]
        assert statuses == [401, 401, 401, 429, 429]
        assert (await Caller(app, key).get("/v1/me")).status_code == 200


async def lock_out(stranger: Caller, **headers: str) -> httpx.Response:
    """Fails three times and answers the fourth refusal."""
    asked = [await stranger.get("/v1/me", headers=bearer(f"wrong{n}") | headers) for n in range(4)]
    assert [answer.status_code for answer in asked] == [401, 401, 401, 429]
    return asked[-1]


def from_address(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


async def test_clients_behind_a_trusted_proxy_are_locked_out_one_by_one(make_settings: Callable[..., Settings]) -> None:
    async with serving(make_settings(login_rate_limit="3/hour", trusted_proxies="192.0.2.0/24, 10.0.0.0/8")) as app:
        proxy = Caller(app, None)
        await lock_out(proxy, **from_address("198.51.100.1"))
        for address, status in (("198.51.100.1, 10.0.0.5", 429), ("198.51.100.2", 401), ("198.51.100.1, 8.8.8.8", 401)):
            answer = await proxy.get("/v1/me", headers=bearer("wrong") | from_address(address))
            assert answer.status_code == status, address


async def test_the_addresses_of_one_ipv6_network_are_locked_out_together(
    make_settings: Callable[..., Settings],
) -> None:
    async with serving(make_settings(login_rate_limit="3/hour", trusted_proxies="192.0.2.0/24")) as app:
        proxy = Caller(app, None)
        tries = [(f"2001:db8:2:3::{n}", 401) for n in range(1, 4)]
        for address, status in (*tries, ("2001:db8:2:3:ffff::1", 429), ("2001:db8:2:4::1", 401)):
            answer = await proxy.get("/v1/me", headers=bearer("wrong") | from_address(address))
            assert answer.status_code == status, address


@pytest.mark.parametrize("trusted", ["", "10.0.0.0/8"])
async def test_a_forwarded_address_from_an_untrusted_peer_is_ignored(
    make_settings: Callable[..., Settings], trusted: str
) -> None:
    async with serving(make_settings(login_rate_limit="3/hour", trusted_proxies=trusted)) as app:
        stranger = Caller(app, None)
        await lock_out(stranger, **from_address("198.51.100.1"))
        for address in ("198.51.100.2", "198.51.100.1, 10.0.0.5"):
            answer = await stranger.get("/v1/me", headers=bearer("wrong") | from_address(address))
            assert answer.status_code == 429


async def test_log_lines_and_the_audit_trail_name_the_forwarded_address(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    async with serving(make_settings(trusted_proxies="192.0.2.7")) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        with written_by(_log=middleware) as lines:
            made = await operator.post("/v1/tenants", json={"name": "lab"}, headers=from_address("198.51.100.1"))
            [line] = lines.new()
        assert (made.status_code, line["address"]) == (201, "198.51.100.1")
        entries = (await operator.get("/v1/audit")).json()["items"]
        assert "198.51.100.1" in {entry["address"] for entry in entries}
