"""Releasing many leases in one call."""

from typing import Any

import pytest

from app.services.leases import bulk_release
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

UNKNOWN = "lease_01h455vb4pex5vsknk084sn02q"


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def make(caller: Caller, **labels: str) -> str:
    wish = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "labels": labels}
    made = await caller.post("/v1/leases", json=wish)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def release(caller: Caller, **selection: Any) -> dict[str, Any]:
    answer = await caller.post("/v1/leases/release", json=selection)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def states(caller: Caller) -> dict[str, str]:
    return {one["id"]: one["state"] for one in (await caller.get("/v1/leases")).json()["items"]}


async def test_leases_with_all_of_some_labels_are_released(alice: Caller) -> None:
    both, other = await make(alice, team="vision", run="Größe 1"), await make(alice, team="vision")
    found = await release(alice, label=["team:vision", "run:Größe 1"])
    assert [(one["id"], one["state"], one["released"]) for one in found["items"]] == [(both, "releasing", True)]
    assert (found["released"], found["not_found"], found["more"]) == (1, [], False)
    assert await states(alice) == {both: "releasing", other: "queued"}
    entries = (await alice.get(f"/v1/audit?type=lease.release&about={both}")).json()["items"]
    assert [entry["after"]["state"] for entry in entries] == ["releasing"]


async def test_a_dry_run_changes_nothing(alice: Caller) -> None:
    lease_id = await make(alice)
    found = await release(alice, all=True, dry_run=True)
    assert (found["dry_run"], found["released"]) == (True, 1)
    assert found["items"][0]["state"] == "queued"
    assert await states(alice) == {lease_id: "queued"}


async def test_ids_that_end_already_or_are_anothers_are_told_apart(alice: Caller, bob: Caller) -> None:
    running, ending, foreign = await make(alice), await make(alice), await make(bob)
    await alice.delete(f"/v1/leases/{ending}")
    found = await release(alice, ids=[running, ending, foreign, UNKNOWN, running])
    assert {one["id"]: one["released"] for one in found["items"]} == {running: True, ending: False}
    assert found["not_found"] == sorted([foreign, UNKNOWN])
    assert await states(bob) == {foreign: "queued"}
    assert (await release(alice, ids=[running]))["released"] == 0


async def test_all_leases_are_those_of_one_tenant(alice: Caller, bob: Caller, operator: Caller) -> None:
    mine, other = await make(alice), await make(bob)
    refused = await operator.post("/v1/leases/release", json={"all": True})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert (await release(operator, all=True, tenant_id=bob.tenant_id))["released"] == 1
    assert (await states(alice))[mine] == "queued"
    assert (await states(bob))[other] == "releasing"
    assert (await release(operator, ids=[mine]))["released"] == 1
    assert (await operator.get(f"/v1/leases/{mine}")).json()["reason"]["code"] == "released_by_operator"


async def test_more_than_one_call_takes_is_told(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_release, "MOST", 2)
    monkeypatch.setattr(bulk_release, "_BATCH", 1)
    for _ in range(3):
        await make(alice)
    first, second = await release(alice, all=True), await release(alice, all=True)
    assert [(one["released"], one["more"]) for one in (first, second)] == [(2, True), (1, False)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"all": True, "ids": [UNKNOWN]},
        {"ids": []},
        {"ids": ["x"]},
        {"label": ["team"]},
        {"label": []},
        {"all": "yes"},
    ],
)
async def test_a_selection_that_is_not_exactly_one_is_refused(alice: Caller, body: dict[str, Any]) -> None:
    lease_id = await make(alice)
    assert (await alice.post("/v1/leases/release", json=body)).status_code == 422
    assert await states(alice) == {lease_id: "queued"}


async def test_a_viewer_releases_nothing(alice: Caller) -> None:
    await make(alice)
    viewer = await alice.member("viewer")
    assert (await viewer.post("/v1/leases/release", json={"all": True})).status_code == 403
