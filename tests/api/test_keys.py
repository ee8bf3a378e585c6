"""API keys."""

import pytest
from fastapi import FastAPI

from app.services.tenants.keys import MOST
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

UNKNOWN = "key_01jz0000000000000000000000"


async def test_a_secret_is_shown_once(alice: Caller) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/keys"
    made = await alice.post(path, json={"name": "ci", "role": "member"})
    key = made.json()
    assert key["secret"].startswith(key["prefix"] + "_")
    listed = await alice.get(path)
    assert key["secret"] not in listed.text
    assert "secret" not in listed.json()["items"][0]
    assert [item["name"] for item in listed.json()["items"]] == ["ci", "admin"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"role": "member"}, "#/body/name"),
        ({"name": "ok", "role": "operator"}, "#/body/role"),
        ({"name": "ok", "role": "viewer", "more": 1}, "#/body/more"),
        ({"name": "ok", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}, "#/body/expires_at"),
        ({"name": "ok", "role": "viewer", "expires_at": "2999-01-01T00:00:00"}, "#/body/expires_at"),
        ({"name": "ok", "role": "viewer", "expires_at": 4102444800}, "#/body/expires_at"),
        ({"name": "a\u0000b", "role": "viewer"}, "#/body/name"),
        ({"name": "x" * 64, "role": "viewer"}, "#/body/name"),
    ],
)
async def test_a_wrong_field_is_pointed_at(alice: Caller, body: dict[str, object], pointer: str) -> None:
    refused = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_anothers_keys_do_not_exist(alice: Caller, bob: Caller) -> None:
    bobs = (await bob.get("/v1/me")).json()["key_id"]
    foreign = [
        await alice.get(f"/v1/tenants/{bob.tenant_id}/keys"),
        await alice.post(f"/v1/tenants/{bob.tenant_id}/keys", json={"name": "spy", "role": "admin"}),
        await alice.get(f"/v1/tenants/{bob.tenant_id}/quotas"),
        await alice.delete(f"/v1/keys/{bobs}"),
        await alice.post(f"/v1/keys/{bobs}/rotate", json={}),
    ]
    assert {(answer.status_code, answer.json()["code"]) for answer in foreign} == {(404, "not_found")}
    unknown = (await alice.delete(f"/v1/keys/{UNKNOWN}")).json()
    theirs = foreign[3].json()
    assert {name for name in theirs if theirs[name] != unknown[name]} == {"instance", "request_id"}
    assert (await bob.get("/v1/me")).status_code == 200


async def test_revoking_twice_changes_nothing(alice: Caller) -> None:
    made = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "member"})
    first = await alice.delete(f"/v1/keys/{made.json()['id']}")
    assert first.json()["revoked_at"] is not None
    assert (await alice.delete(f"/v1/keys/{made.json()['id']}")).json() == first.json()


async def test_rotation_gives_a_new_secret_and_lets_the_old_one_live_for_the_overlap(
    alice: Caller, app: FastAPI
) -> None:
    made = (await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "member"})).json()
    rotated = (await alice.post(f"/v1/keys/{made['id']}/rotate", json={"overlap_seconds": 60})).json()
    assert rotated["id"] == made["id"]
    assert rotated["secret"] != made["secret"]
    assert rotated["previous_valid_until"] is not None
    for secret in (made["secret"], rotated["secret"]):
        assert (await Caller(app, secret).get("/v1/me")).status_code == 200
    last = (await alice.post(f"/v1/keys/{made['id']}/rotate", json={})).json()
    assert last["previous_valid_until"] is None
    assert (await Caller(app, last["secret"]).get("/v1/me")).status_code == 200


async def test_a_secret_from_before_the_overlap_does_not_work(alice: Caller, app: FastAPI) -> None:
    made = (await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "member"})).json()
    await alice.post(f"/v1/keys/{made['id']}/rotate", json={})
    assert (await Caller(app, made["secret"]).get("/v1/me")).status_code == 401


async def test_a_revoked_key_cannot_be_rotated(alice: Caller) -> None:
    made = (await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "member"})).json()
    await alice.delete(f"/v1/keys/{made['id']}")
    refused = await alice.post(f"/v1/keys/{made['id']}/rotate", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_an_operator_manages_the_keys_of_any_tenant(operator: Caller, alice: Caller) -> None:
    made = await operator.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ops", "role": "viewer"})
    assert made.status_code == 201
    assert (await operator.delete(f"/v1/keys/{made.json()['id']}")).status_code == 200


MANY = """
    INSERT INTO api_key (id, tenant_id, role, name, secret_hash, revoked_at, expires_at)
    SELECT 'key_' || n, %s, 'viewer', 'k', 'x', %s, %s FROM generate_series(1, %s) n
"""


@pytest.mark.parametrize(
    ("revoked_at", "expires_at", "status"), [(None, None, 409), ("2026-01-01", None, 201), (None, "2026-01-01", 201)]
)
async def test_a_tenant_has_a_limited_number_of_live_keys(
    alice: Caller, database_url: str, revoked_at: str | None, expires_at: str | None, status: int
) -> None:
    Fleet(database_url).run(MANY, alice.tenant_id, revoked_at, expires_at, MOST)
    answer = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "one-more", "role": "viewer"})
    assert answer.status_code == status
    assert (str(MOST) in answer.text) == (status == 409)
