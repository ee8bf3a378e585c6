"""Who gets in: every route with every kind of wrong key, and with every role."""

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from app.api.http import middleware
from app.domain.ids import KeyId
from app.prerequisites import make_deadman_key
from app.services import key_format
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.security.routes import EVERY_OPERATION, OPERATIONS, Operation
from tests.security.test_bodies import IDS, JSON

IDS = {**IDS, "account": "main", "region": "us-east-1", "orphan_id": "orphan_01h455vb4pex5vsknk084sn02q"}
SECURED = tuple(one for one in EVERY_OPERATION if one.role)
RANK = ["viewer", "member", "admin", "operator"]
LEAST = {"deadman": "operator"}
"""The least of these roles where a role beside them is enough."""
STRANGER = key_format.generate(KeyId("key_01jz0000000000000000000000")).text
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture
async def wrong_keys(alice: Caller, app: FastAPI, database_url: str) -> dict[str, str | None]:
    """The Authorization header of everybody who must not get in."""
    keys = {}
    for name in ("revoked", "expired", "rotated"):
        made = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": name, "role": "admin"})
        keys[name] = made.json()
    await alice.delete(f"/v1/keys/{keys['revoked']['id']}")
    await alice.post(f"/v1/keys/{keys['rotated']['id']}/rotate", json={})
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute("UPDATE api_key SET expires_at = now() WHERE id = %s", [keys["expired"]["id"]])
    secrets = {name: f"Bearer {key['secret']}" for name, key in keys.items()}
    alices = key_format.parse(alice.key)
    assert alices is not None
    return {
        "missing": None,
        "empty": "",
        "another scheme": "Basic b3BlcmF0b3I6",
        "malformed": "Bearer gpl_x_y",
        "mistyped": f"Bearer {alice.key[:-1]}~",
        "unknown": f"Bearer {STRANGER}",
        "another secret for a real key": f"Bearer {key_format.generate(alices.key_id).text}",
        "twice": f"Bearer {alice.key} {alice.key}",
        **secrets,
    }


async def call(caller: Caller, one: Operation, **headers: str) -> httpx.Response:
    return await caller.request(one.method, one.url(IDS), json=one.body, headers=headers)


async def test_every_wrong_key_gets_one_answer_on_every_route(
    anonymous: Caller, wrong_keys: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "new_request_id", lambda: "req_probe")
    for one in SECURED:
        answers = {}
        for name, authorization in wrong_keys.items():
            given = {} if authorization is None else {"Authorization": authorization}
            answer = await call(anonymous, one, **given)
            assert answer.status_code == 401, (one.id, name)
            assert answer.headers["www-authenticate"] == "Bearer"
            answers[name] = (answer.content, sorted(answer.headers.items()))
        assert all(answer == answers["missing"] for answer in answers.values()), one.id


async def test_a_role_below_the_least_one_is_refused_on_every_route(alice: Caller) -> None:
    for role in ("viewer", "member", "admin"):
        caller = await alice.member(role)
        for one in SECURED:
            if RANK.index(role) < RANK.index(LEAST.get(one.role or "", one.role or "")):
                answer = await call(caller, one)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (one.id, role)


async def test_nobody_makes_a_key_above_a_tenants_roles(alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/keys"
    for role in ("operator", "deadman", "OPERATOR", "root", "", None, ["operator"]):
        assert (await alice.post(path, json={"name": "up", "role": role})).status_code == 422


async def test_a_dead_mans_key_sends_the_heartbeat_and_opens_nothing_else(app: FastAPI, database_url: str) -> None:
    deadman = Caller(app, make_deadman_key(database_url))
    opened = set()
    for one in SECURED:
        answer = await call(deadman, one)
        assert answer.status_code in {204, 403}, one.id
        if answer.is_success:
            opened.add(one.id)
    assert opened == {"record_deadman_heartbeat"}


@pytest.fixture
async def every_answer(alice: Caller, operator: Caller, anonymous: Caller, fleet: Fleet) -> list[httpx.Response]:
    """Answers of every route in every mood, and of what is no route."""
    alice.app.state.openapi = b"{}"  # takes a second to make; tests/api/test_docs_page.py reads it
    found = []
    for one in OPERATIONS:
        for caller in (operator, alice, anonymous):
            found.append(await call(caller, one))
            found.append(await caller.request(one.method, one.url(IDS), content=b"{", headers=JSON))
    for path in ("/", "/docs", "/openapi.json", "/v1/nothing", "/%00", "/v1/leases/../me"):
        found += [await alice.get(path), await alice.request("TRACE", path)]
    found.append(await alice.post("/v1/leases", content=b" " * 1_048_577))
    found.append(await alice.post("/v1/leases", content=b"a=b", headers={"Content-Type": "text/plain"}))
    return found


async def test_every_answer_carries_the_protective_headers(every_answer: list[httpx.Response]) -> None:
    assert {200, 201, 204, 400, 401, 403, 404, 405, 413, 415, 422} <= {one.status_code for one in every_answer}
    for answer in every_answer:
        where = (answer.request.method, answer.request.url.path, answer.status_code)
        assert {name: answer.headers.get_list(name) for name in HEADERS} == {n: [v] for n, v in HEADERS.items()}, where
        (policy,) = answer.headers.get_list("content-security-policy")
        assert policy.startswith("default-src 'none'"), where
        assert "unsafe" not in policy
        assert len(answer.headers.get_list("cache-control")) == 1, where
        assert "public" not in answer.headers["cache-control"]
        assert answer.headers["x-request-id"]
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith(("access-control", "set-cookie"))]


async def test_a_limit_out_of_range_is_refused_on_every_list(operator: Caller, alice: Caller) -> None:
    for one in (one for one in OPERATIONS if "limit" in one.names("query")):
        for limit in (201, 10**9, 2**63, 10**30, -1, 0):
            url = one.url({**IDS, "tenant_id": alice.tenant_id})
            answer = await operator.request(one.method, url, params={"limit": str(limit)}, json=one.body)
            assert answer.status_code == 422, (one.id, answer.text)
            assert [error["pointer"] for error in answer.json()["errors"]] == ["#/query/limit"], one.id
