"""Stored SSH keys: whose they are, and which keys a lease gets."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.domain.ssh_keys import MOST_STORED
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet

PATH = "/v1/ssh-keys"
WISH = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
MANY = """
    INSERT INTO ssh_key (id, tenant_id, name, public_key, fingerprint, key_id)
    SELECT 'sshkey_' || n, %s, 'key-' || n, 'k', 'f', 'key_x' FROM generate_series(1, %s) AS n
"""


def new_key() -> str:
    public = Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


async def stored(caller: Caller, name: str, **more: Any) -> dict[str, Any]:
    made = await caller.post(PATH, json={"name": name, "public_key": new_key(), **more})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def lease(caller: Caller, **more: Any) -> dict[str, Any]:
    made = await caller.post("/v1/leases", json={**WISH, **more})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()["request"]
    return found


async def test_a_key_is_stored_with_its_fingerprint_and_its_owner(alice: Caller) -> None:
    made = await alice.post(PATH, json={"name": "laptop", "public_key": f" {SSH_KEY}\n"})
    key = made.json()
    me = (await alice.get("/v1/me")).json()["key_id"]
    assert made.headers["Location"] == f"{PATH}/{key['id']}"
    assert (key["name"], key["public_key"], key["default"], key["key_id"]) == ("laptop", SSH_KEY, False, me)
    # what `ssh-keygen -lf` prints for this key
    assert key["fingerprint"] == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert (await alice.get(f"{PATH}/{key['id']}")).json() == key
    assert (await alice.get(PATH)).json()["items"] == [key]


async def test_a_name_belongs_to_one_key_of_a_tenant(alice: Caller, bob: Caller) -> None:
    await stored(alice, "laptop")
    other = await stored(alice, "desk")
    again = await alice.post(PATH, json={"name": "laptop", "public_key": new_key()})
    renamed = await alice.patch(f"{PATH}/{other['id']}", json={"name": "laptop"})
    assert [(one.status_code, one.json()["code"]) for one in (again, renamed)] == [(409, "name_taken")] * 2
    assert "laptop" in again.json()["detail"]
    await stored(bob, "laptop")


@pytest.mark.parametrize("text", ["ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----", f'command="x" {SSH_KEY}'])
async def test_what_is_no_public_key_is_refused(alice: Caller, text: str) -> None:
    refused = await alice.post(PATH, json={"name": "laptop", "public_key": text})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"].endswith("/public_key")


async def test_a_repeated_call_stores_one_key(alice: Caller) -> None:
    body, headers = {"name": "laptop", "public_key": SSH_KEY}, {"Idempotency-Key": "k"}
    first, second = [await alice.post(PATH, json=body, headers=headers) for _ in range(2)]
    assert second.json() == first.json()
    assert second.headers["Idempotency-Replayed"] == "true"


async def test_members_change_their_own_keys_and_admins_all(alice: Caller) -> None:
    one, two = await alice.member("member"), await alice.member("member")
    key = await stored(one, "mine")
    path = f"{PATH}/{key['id']}"
    for refused in (await two.patch(path, json={"default": True}), await two.delete(path)):
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "only that API key or an admin" in refused.json()["detail"]
    assert (await one.patch(path, json={"default": True})).json()["default"] is True
    assert (await alice.patch(path, json={"name": "theirs", "default": None})).json()["name"] == "theirs"
    assert (await alice.delete(path)).status_code == 204
    assert (await one.get(path)).status_code == 404


async def test_the_ssh_keys_of_a_revoked_api_key_stay_in_the_list(alice: Caller) -> None:
    member = await alice.member("member")
    key = await stored(member, "theirs")
    owner = (await member.get("/v1/me")).json()["key_id"]
    assert (await alice.delete(f"/v1/keys/{owner}")).json()["revoked_at"] is not None
    assert (await alice.get(PATH)).json()["items"] == [key]


async def test_a_list_is_the_tenants_or_ones_own(alice: Caller, operator: Caller) -> None:
    member, viewer = await alice.member("member"), await alice.member("viewer")
    names = [(await stored(caller, name))["name"] for caller, name in ((alice, "a"), (member, "b"), (member, "c"))]

    async def shown(caller: Caller, **params: Any) -> list[str]:
        return [key["name"] for key in (await caller.get(PATH, params=params)).json()["items"]]

    assert await shown(viewer) == names[::-1]
    assert await shown(member, mine=True) == ["c", "b"]
    assert await shown(operator, tenant_id=alice.tenant_id) == names[::-1]
    assert await shown(operator, mine=True) == []
    first = (await viewer.get(PATH, params={"limit": 2})).json()
    assert await shown(viewer, cursor=first["next_cursor"]) == ["a"]


async def test_a_tenant_has_a_limited_number_of_keys(alice: Caller, fleet: Fleet) -> None:
    fleet.run(MANY, alice.tenant_id, MOST_STORED)
    refused = await alice.post(PATH, json={"name": "one-more", "public_key": SSH_KEY})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert str(MOST_STORED) in refused.json()["detail"]


async def test_a_lease_gets_the_keys_that_it_names_by_name_or_id(alice: Caller, fleet: Fleet) -> None:
    member = await alice.member("member")
    mine, theirs = await stored(alice, "mine"), await stored(member, "theirs", default=True)
    request = await lease(alice, ssh_keys=[theirs["id"], "mine"], ssh_public_keys=[SSH_KEY])
    assert request["ssh_keys"] == ["theirs", "mine"]
    assert request["ssh_public_keys"] == [SSH_KEY, theirs["public_key"], mine["public_key"]]


async def test_a_request_without_keys_gets_the_default_keys_of_its_caller(alice: Caller, fleet: Fleet) -> None:
    member = await alice.member("member")
    mine, second = await stored(alice, "mine", default=True), await stored(alice, "second", default=True)
    await stored(alice, "spare")
    await stored(member, "theirs", default=True)
    request = await lease(alice)
    assert (request["ssh_keys"], request["ssh_public_keys"]) == (
        ["mine", "second"],
        [mine["public_key"], second["public_key"]],
    )
    assert (await lease(alice, ssh_keys=None, ssh_public_keys=None))["ssh_keys"] == ["mine", "second"]
    assert (await lease(alice, ssh_keys=[]))["ssh_public_keys"] == []
    assert (await lease(alice, ssh_public_keys=[]))["ssh_public_keys"] == []
    assert (await lease(alice, ssh_public_keys=[SSH_KEY]))["ssh_public_keys"] == [SSH_KEY]


async def test_a_request_can_be_sent_again_as_it_was_returned(alice: Caller, fleet: Fleet) -> None:
    key = await stored(alice, "mine", default=True)
    first = await lease(alice)
    again = await lease(alice, ssh_keys=first["ssh_keys"], ssh_public_keys=first["ssh_public_keys"])
    assert again["ssh_public_keys"] == [key["public_key"]]


async def test_a_lease_keeps_a_key_that_is_deleted_later(alice: Caller, fleet: Fleet) -> None:
    key = await stored(alice, "mine")
    made = (await alice.post("/v1/leases", json={**WISH, "ssh_keys": ["mine"]})).json()
    assert (await alice.delete(f"{PATH}/{key['id']}")).status_code == 204
    request = (await alice.get(f"/v1/leases/{made['id']}")).json()["request"]
    assert (request["ssh_keys"], request["ssh_public_keys"]) == (["mine"], [key["public_key"]])


async def test_an_unknown_key_is_refused_before_anything_is_created(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    foreign = await stored(bob, "bobs")
    await stored(alice, "mine")
    for path in ("/v1/leases", "/v1/leases/plan"):
        refused = await alice.post(path, json={**WISH, "ssh_keys": ["mine", "bobs", foreign["id"]]})
        assert refused.status_code == 422
        assert [error["pointer"][-11:] for error in refused.json()["errors"]] == ["/ssh_keys/1", "/ssh_keys/2"]
    assert (await alice.get("/v1/leases")).json()["items"] == []


async def test_keys_are_limited_together_with_stored_ones(alice: Caller, fleet: Fleet) -> None:
    names = [(await stored(alice, f"key-{n}"))["name"] for n in range(11)]
    refused = await alice.post(
        "/v1/leases", json={**WISH, "ssh_keys": names, "ssh_public_keys": [new_key() for _ in range(10)]}
    )
    assert refused.status_code == 422
    assert "21 keys" in refused.json()["errors"][0]["detail"]


async def test_an_operator_stores_a_key_for_the_tenant_that_it_acts_for(
    operator: Caller, alice: Caller, fleet: Fleet
) -> None:
    assert (await operator.post(PATH, json={"name": "ops", "public_key": SSH_KEY})).status_code == 422
    await stored(operator, "ops", default=True, tenant_id=alice.tenant_id)
    assert (await lease(operator, tenant_id=alice.tenant_id))["ssh_keys"] == ["ops"]
    assert (await lease(alice))["ssh_keys"] == []
