"""A repeated request is the same request."""

import asyncio

import pytest

from tests.api.conftest import Caller

HEADER = {"Idempotency-Key": "once"}


async def test_a_repetition_gets_the_first_answer(operator: Caller) -> None:
    first = await operator.post("/v1/tenants", json={"name": "lab"}, headers=HEADER)
    again = await operator.post("/v1/tenants", json={"name": "lab", "max_ttl_seconds": None}, headers=HEADER)
    assert again.status_code == first.status_code == 201
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


async def test_another_body_under_the_same_key_is_refused(operator: Caller) -> None:
    await operator.post("/v1/tenants", json={"name": "lab"}, headers=HEADER)
    other = await operator.post("/v1/tenants", json={"name": "laboratory"}, headers=HEADER)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


async def test_many_at_once_make_one(operator: Caller) -> None:
    answers = await asyncio.gather(
        *(operator.post("/v1/tenants", json={"name": "lab"}, headers=HEADER) for _ in range(16))
    )
    made = [answer for answer in answers if answer.status_code == 201]
    assert made
    assert len({answer.json()["id"] for answer in made}) == 1
    assert {answer.json()["code"] for answer in answers if answer.status_code != 201} <= {"idempotency_in_flight"}
    assert len((await operator.get("/v1/tenants")).json()["items"]) == 1


async def test_a_refusal_is_not_kept(operator: Caller) -> None:
    taken = await operator.post("/v1/tenants", json={"name": "lab"})
    refused = await operator.post("/v1/tenants", json={"name": "lab"}, headers=HEADER)
    assert refused.status_code == 409
    await operator.patch(f"/v1/tenants/{taken.json()['id']}", json={"name": "other"})
    assert (await operator.post("/v1/tenants", json={"name": "lab"}, headers=HEADER)).status_code == 201


async def test_the_secret_of_a_key_is_not_repeated(alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/keys"
    first = await alice.post(path, json={"name": "ci", "role": "viewer"}, headers=HEADER)
    again = await alice.post(path, json={"name": "ci", "role": "viewer"}, headers=HEADER)
    assert again.json() == {**first.json(), "secret": None}
    rotated = await alice.post(f"/v1/keys/{first.json()['id']}/rotate", json={}, headers=HEADER)
    repeated = await alice.post(f"/v1/keys/{first.json()['id']}/rotate", json={}, headers=HEADER)
    assert repeated.json() == {**rotated.json(), "secret": None}


async def test_two_api_keys_of_a_tenant_may_use_the_same_key_and_a_rotated_one_finds_its_own(alice: Caller) -> None:
    path, body = "/v1/webhooks", {"url": "https://93.184.216.34/hook"}
    other = await alice.member("admin")
    mine, theirs = [(await one.post(path, json=body, headers=HEADER)).json()["id"] for one in (alice, other)]
    assert mine != theirs
    key_id = (await other.get("/v1/me")).json()["key_id"]
    rotated = await alice.post(f"/v1/keys/{key_id}/rotate", json={})
    again = await Caller(alice.app, rotated.json()["secret"], alice.tenant_id).post(path, json=body, headers=HEADER)
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (theirs, "true")


async def test_two_tenants_may_use_the_same_key(alice: Caller, bob: Caller) -> None:
    body = {"name": "ci", "role": "viewer"}
    hers = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json=body, headers=HEADER)
    his = await bob.post(f"/v1/tenants/{bob.tenant_id}/keys", json=body, headers=HEADER)
    assert (hers.status_code, his.status_code) == (201, 201)
    assert hers.json()["id"] != his.json()["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "two words", "tab\there"])
async def test_a_key_that_is_none_is_pointed_at(operator: Caller, key: str) -> None:
    refused = await operator.post("/v1/tenants", json={"name": "lab"}, headers={"Idempotency-Key": key})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_header")
    assert refused.json()["errors"][0]["pointer"] == "#/header/Idempotency-Key"
