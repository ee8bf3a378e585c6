"""Tenants."""

import asyncio

import pytest

from tests.api.conftest import Caller

UNKNOWN = "tenant_01jz0000000000000000000000"


async def create(operator: Caller, **fields: object) -> dict[str, str]:
    made = await operator.post("/v1/tenants", json={"name": "lab", **fields})
    assert made.status_code == 201, made.text
    tenant: dict[str, str] = made.json()
    return tenant


async def test_a_new_tenant_has_the_installations_terms_and_may_lease_nothing(operator: Caller) -> None:
    made = await operator.post("/v1/tenants", json={"name": "vision lab"})
    assert made.status_code == 201, made.text
    tenant = made.json()
    assert made.headers["location"] == f"/v1/tenants/{tenant['id']}"
    assert (tenant["max_ttl_seconds"], tenant["max_total_seconds"]) == (86_400, 604_800)
    quotas = (await operator.get(f"/v1/tenants/{tenant['id']}/quotas")).json()["items"]
    assert [(row["resource"], row["limit"], row["available"]) for row in quotas] == [
        ("gpus", None, 0),
        ("leases", None, None),
        ("spend_per_hour", None, None),
    ]


async def test_a_name_is_given_once_even_to_many_at_the_same_time(operator: Caller) -> None:
    answers = await asyncio.gather(*(operator.post("/v1/tenants", json={"name": "lab"}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"name_taken"}


async def test_a_tenant_is_read_as_it_was_made(operator: Caller) -> None:
    tenant = await create(operator)
    assert (await operator.get(f"/v1/tenants/{tenant['id']}")).json() == tenant


@pytest.mark.parametrize("tenant_id", [UNKNOWN, "nonsense", "key_01jz0000000000000000000000", "x" * 300, "%00"])
async def test_what_does_not_exist_is_not_found(operator: Caller, tenant_id: str) -> None:
    for answer in (
        await operator.get(f"/v1/tenants/{tenant_id}"),
        await operator.patch(f"/v1/tenants/{tenant_id}", json={}),
        await operator.get(f"/v1/tenants/{tenant_id}/quotas"),
        await operator.put(f"/v1/tenants/{tenant_id}/quotas", json={"limits": []}),
        await operator.get(f"/v1/tenants/{tenant_id}/keys"),
        await operator.post(f"/v1/tenants/{tenant_id}/keys", json={"name": "k", "role": "admin"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_pages_go_through_all_tenants_newest_first(operator: Caller) -> None:
    made = [(await create(operator, name=f"t{n}"))["id"] for n in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = (await operator.get("/v1/tenants", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [tenant["id"] for tenant in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


async def test_a_change_counts_the_version_and_the_same_again_does_not(operator: Caller) -> None:
    tenant = await create(operator)
    path = f"/v1/tenants/{tenant['id']}"
    changed = (await operator.patch(path, json={"max_ttl_seconds": 3600})).json()
    assert (changed["max_ttl_seconds"], changed["version"]) == (3600, 2)
    again = (await operator.patch(path, json={"max_ttl_seconds": 3600, "name": None})).json()
    assert again == changed


async def test_a_term_longer_than_the_total_is_pointed_at(operator: Caller) -> None:
    refused = await operator.post("/v1/tenants", json={"name": "x", "max_ttl_seconds": 7200, "max_total_seconds": 3600})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/body/max_ttl_seconds"


async def test_a_change_of_an_older_version_is_refused(operator: Caller) -> None:
    tenant = await create(operator)
    path = f"/v1/tenants/{tenant['id']}"
    etag = (await operator.get(path)).headers["etag"]
    first = await operator.patch(path, json={"name": "new"}, headers={"If-Match": etag})
    assert first.status_code == 200
    second = await operator.patch(path, json={"name": "newer"}, headers={"If-Match": f'"x", W/{etag}'})
    assert (second.status_code, second.json()["code"]) == (412, "version_conflict")
    third = await operator.patch(path, json={"name": "newer"}, headers={"If-Match": first.headers["etag"]})
    assert third.status_code == 200


async def test_what_is_known_already_is_not_sent_again(operator: Caller) -> None:
    tenant = await create(operator)
    for path in (f"/v1/tenants/{tenant['id']}", "/v1/tenants", f"/v1/tenants/{tenant['id']}/quotas"):
        etag = (await operator.get(path)).headers["etag"]
        same = await operator.get(path, headers={"If-None-Match": etag})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)


async def test_a_change_shows_in_the_lists_etag(operator: Caller) -> None:
    tenant = await create(operator)
    first = await operator.get("/v1/tenants")
    await operator.patch(f"/v1/tenants/{tenant['id']}", json={"name": "other"})
    other = await operator.get("/v1/tenants", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


async def test_taking_anothers_name_is_refused(operator: Caller) -> None:
    await create(operator, name="one")
    two = await create(operator, name="two")
    refused = await operator.patch(f"/v1/tenants/{two['id']}", json={"name": "one"})
    assert refused.json()["code"] == "name_taken"


async def test_a_key_reads_its_own_tenant_and_its_terms(operator: Caller, alice: Caller, bob: Caller) -> None:
    viewer = await alice.member("viewer")
    path = f"/v1/tenants/{alice.tenant_id}"
    own = await viewer.get(path)
    assert own.json() == (await operator.get(path)).json()
    names = ("id", "name", "status", "max_ttl_seconds", "max_total_seconds", "idle_floor")
    assert (await viewer.get("/v1/me")).json()["tenant"] == {name: own.json()[name] for name in names}
    assert (await operator.get("/v1/me")).json()["tenant"] is None
    await operator.patch(path, json={"status": "suspended"})
    assert (await viewer.get("/v1/me")).json()["tenant"]["status"] == "suspended"
    for stranger in (bob, await bob.member("viewer")):
        assert (await stranger.get(path)).status_code == 404
    assert (await viewer.get("/v1/tenants")).status_code == 403
