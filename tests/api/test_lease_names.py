"""Names of live leases are unique in a tenant."""

import asyncio
from typing import Any

import pytest

from app.db.core.ids import new_id
from app.services.leases import creation
from tests.api.conftest import Caller
from tests.api.fleet import Fleet


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def body(**changes: Any) -> dict[str, Any]:
    return {"gpu": {"model": "A10G"}, "ttl_seconds": 7200, **changes}


async def test_a_name_of_a_live_lease_is_taken_in_its_tenant_only(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    first = (await alice.post("/v1/leases", json=body(name="train"))).json()["id"]
    for path in ("/v1/leases", "/v1/leases/plan"):
        refused = await alice.post(path, json=body(name="train"))
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["lease_id"]) == (409, "name_taken", first)
        assert problem["errors"][0]["pointer"] == "#/body/name"
    assert (await bob.post("/v1/leases", json=body(name="train"))).status_code == 201
    fleet.finish(first, "released")
    assert (await alice.post("/v1/leases", json=body(name="train"))).status_code == 201


async def test_of_two_creates_at_once_one_gets_the_name(alice: Caller) -> None:
    answers = await asyncio.gather(*(alice.post("/v1/leases", json=body(name="once")) for _ in range(6)))
    [made] = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    refused = [answer.json() for answer in answers if answer.status_code != 201]
    assert {(one["code"], one["lease_id"]) for one in refused} == {("name_taken", made)}


async def test_a_lease_cannot_be_renamed_to_a_taken_name_but_keeps_its_own(alice: Caller, fleet: Fleet) -> None:
    first, second = [(await alice.post("/v1/leases", json=body(name=name))).json()["id"] for name in ("a", "b")]
    refused = await alice.patch(f"/v1/leases/{second}", json={"name": "a"})
    assert (refused.status_code, refused.json()["code"], refused.json()["lease_id"]) == (409, "name_taken", first)
    for name in ("b", "c"):
        assert (await alice.patch(f"/v1/leases/{second}", json={"name": name})).status_code == 200
    assert (await alice.post("/v1/leases", json=body(name="c"))).json()["code"] == "name_taken"
    fleet.finish(first, "released")
    assert (await alice.patch(f"/v1/leases/{first}", json={"name": "c"})).status_code == 200


async def test_a_name_that_two_rebuilt_leases_have_stays_taken(alice: Caller, fleet: Fleet) -> None:
    first, second = [(await alice.post("/v1/leases", json=body())).json()["id"] for _ in range(2)]
    fleet.run("UPDATE lease SET name = 'twice', unique_name = NULL")
    fleet.finish(first, "released")
    refused = (await alice.post("/v1/leases", json=body(name="twice"))).json()
    assert (refused["code"], refused["lease_id"]) == ("name_taken", second)


async def test_a_generated_name_avoids_a_taken_one(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = new_id("lease"), new_id("lease")
    assert (await alice.post("/v1/leases", json=body(name=f"lease-{first[-8:]}"))).status_code == 201
    ids = iter([first, second])
    monkeypatch.setattr(creation, "new_id", lambda kind: next(ids) if kind == "lease" else new_id(kind))
    made = await alice.post("/v1/leases", json=body())
    assert (made.status_code, made.json()["id"], made.json()["name"]) == (201, second, f"lease-{second[-8:]}")
