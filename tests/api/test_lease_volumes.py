"""Volumes of leases: which lease gets one, where its VM runs, and what is refused."""

import asyncio
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from app.domain.vm_parts import PartsFacts
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

DATA = {"name": "data", "path": "/data"}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def body(*mounts: dict[str, str], **changes: Any) -> dict[str, Any]:
    hardware = {"instance_types": ["g5.xlarge"], "ttl_seconds": 3600, "ssh_keys": []}
    return {**hardware, "volumes": list(mounts or (DATA,)), **changes}


def holder(fleet: Fleet, volume_id: str) -> Any:
    return fleet.run("SELECT lease_id FROM volume WHERE id = %s", volume_id)[0]["lease_id"]


async def test_a_lease_holds_its_volumes_and_runs_in_their_zone(alice: Caller, fleet: Fleet) -> None:
    first = fleet.volume(alice.tenant_id, zone="us-east-1b")
    second = fleet.volume(alice.tenant_id, "models", zone="us-east-1b")
    mounts = [DATA, {"name": "models", "path": "/srv/models"}]
    made = await alice.post("/v1/leases", json=body(*mounts))
    assert made.status_code == 201, made.text
    lease = made.json()
    assert lease["request"]["volumes"] == mounts
    assert holder(fleet, first) == holder(fleet, second) == lease["id"]
    [row] = fleet.run("SELECT volume_place FROM lease WHERE id = %s", lease["id"])
    assert row["volume_place"] == {"account": "main", "region": "us-east-1", "zone": "us-east-1b", "kinds": []}
    explained = (await alice.get(f"/v1/leases/{lease['id']}/explain")).json()
    assert [candidate["offering"]["zone"] for candidate in explained["candidates"]] == ["us-east-1b"]
    assert {group["code"]: group["count"] for group in explained["excluded"]}["volume_elsewhere"] == 1


async def test_of_many_leases_that_name_one_volume_exactly_one_is_created(alice: Caller, fleet: Fleet) -> None:
    volume_id = fleet.volume(alice.tenant_id)
    fleet.run("UPDATE quota SET \"limit\" = 64 WHERE resource IN ('gpus', 'leases')")
    answers = await asyncio.gather(*(alice.post("/v1/leases", json=body(ttl_seconds=600 + n)) for n in range(32)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 31
    (made,) = (answer.json() for answer in answers if answer.status_code == 201)
    assert holder(fleet, volume_id) == made["id"]
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["code"] == "volume_in_use"
            assert answer.json()["lease_id"] == made["id"]
    assert fleet.run("SELECT count(*) AS n FROM lease") == [{"n": 1}]


async def test_a_repeated_request_gets_its_first_response(alice: Caller, fleet: Fleet) -> None:
    fleet.volume(alice.tenant_id)
    headers = {"Idempotency-Key": "once"}
    first = await alice.post("/v1/leases", json=body(), headers=headers)
    again = await alice.post("/v1/leases", json=body(), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert first.json() == again.json()


async def test_a_volume_in_use_names_the_lease_that_holds_it(alice: Caller, fleet: Fleet) -> None:
    volume_id = fleet.volume(alice.tenant_id)
    lease_id = (await alice.post("/v1/leases", json=body())).json()["id"]
    for path in ("/v1/leases", "/v1/leases/plan", "/v1/quotes"):
        refused = await alice.post(path, json=body())
        assert refused.status_code == 409, path
        problem = refused.json()
        assert (problem["code"], problem["lease_id"], problem["volume_id"]) == ("volume_in_use", lease_id, volume_id)
        assert problem["retryable"]
        assert "state" not in problem  # it is `available`, which would contradict the refusal
        assert problem["errors"][0]["pointer"] == "#/body/volumes/0/name"


@pytest.mark.parametrize("state", ["creating", "deleting"])
async def test_a_volume_that_is_not_available_is_refused(alice: Caller, fleet: Fleet, state: str) -> None:
    fleet.volume(alice.tenant_id, state=state)
    refused = await alice.post("/v1/leases", json=body())
    assert refused.status_code == 409
    assert refused.json()["state"] == state


async def test_volumes_of_others_and_ended_ones_are_unknown(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    fleet.volume(bob.tenant_id)
    fleet.volume(alice.tenant_id, "gone", state="failed", ended_at="now()", billing_ended_at="now()")
    for mounts in ([DATA], [{"name": "gone", "path": "/data"}]):
        for path in ("/v1/leases", "/v1/leases/plan", "/v1/quotes"):
            refused = await alice.post(path, json=body(*mounts))
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), refused.text
            assert refused.json()["errors"][0]["pointer"] == "#/body/volumes/0/name"


async def test_volumes_of_two_zones_are_refused(alice: Caller, fleet: Fleet) -> None:
    fleet.volume(alice.tenant_id)
    fleet.volume(alice.tenant_id, "far", zone="us-east-1b")
    refused = await alice.post("/v1/leases", json=body(DATA, {"name": "far", "path": "/far"}))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/body/volumes/1/name"


@pytest.mark.parametrize(
    ("mounts", "pointer"),
    [
        ([{"name": "data", "path": "/etc"}], "#/body/volumes/0/path"),
        ([{"name": "data", "path": "data"}], "#/body/volumes/0/path"),
        ([DATA, {"name": "data", "path": "/other"}], "#/body/volumes"),
        ([DATA, {"name": "other", "path": "/data/in"}], "#/body/volumes"),
        ([{"name": f"v{n}", "path": f"/v{n}"} for n in range(9)], "#/body/volumes"),
    ],
)
async def test_mounts_that_no_vm_can_have_are_refused(alice: Caller, mounts: list[Any], pointer: str) -> None:
    refused = await alice.post("/v1/leases", json=body(*mounts))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == pointer


async def test_where_no_offering_is_in_the_zone_the_refusal_says_so(alice: Caller, fleet: Fleet) -> None:
    fleet.volume(alice.tenant_id, zone="us-east-1c")
    refused = await alice.post("/v1/leases", json=body())
    assert (refused.status_code, refused.json()["code"]) == (409, "no_offering")
    codes = {group["code"]: group for group in refused.json()["excluded"]}
    assert "the volumes are in us-east-1c of account main" in codes["volume_elsewhere"]["nearest"]
    plan = (await alice.post("/v1/leases/plan", json=body())).json()
    assert not plan["admissible"]
    assert {group["code"] for group in plan["excluded_by_reason"]} >= {"volume_elsewhere"}


HYPERDISK_ALONE = Jsonb(
    PartsFacts(volume_kind="pd-balanced", attached_kinds={"p4d.24xlarge": "hyperdisk-"}).settings_json()
)
"""As an account of Google Cloud is stored, whose type is one like A4."""


async def test_a_type_that_attaches_hyperdisk_alone_is_refused_for_another_volume(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE account SET vm_parts = %s", HYPERDISK_ALONE)
    fleet.run("UPDATE quota SET \"limit\" = 64 WHERE resource = 'gpus'")
    fleet.volume(alice.tenant_id, kind="pd-balanced")
    fleet.volume(alice.tenant_id, "fast", kind="hyperdisk-balanced")
    wish = {"instance_types": ["p4d.24xlarge"]}
    both = body(DATA, {"name": "fast", "path": "/fast"}, **wish)
    for mounts in (body(**wish), both):
        refused = await alice.post("/v1/leases", json=mounts)
        assert (refused.status_code, refused.json()["code"]) == (409, "no_offering"), refused.text
        (group,) = [one for one in refused.json()["excluded"] if one["code"] == "volume_kind"]
        for words in ("p4d.24xlarge", "hyperdisk-* volumes alone", "pd-balanced", "another instance type", "disk_type"):
            assert words in group["nearest"]
        plan = (await alice.post("/v1/leases/plan", json=mounts)).json()
        assert not plan["admissible"]
        assert "volume_kind" in {one["code"] for one in plan["excluded_by_reason"]}
    assert (await alice.post("/v1/leases", json=body({"name": "fast", "path": "/fast"}, **wish))).status_code == 201
    made = await alice.post("/v1/leases", json=body(instance_types=["p4d.24xlarge", "g5.xlarge"]))
    assert made.status_code == 201, made.text
    explained = (await alice.get(f"/v1/leases/{made.json()['id']}/explain")).json()
    assert {one["offering"]["instance_type"] for one in explained["candidates"]} == {"g5.xlarge"}


async def test_a_quote_is_bound_by_its_volumes(alice: Caller, fleet: Fleet) -> None:
    volume_id = fleet.volume(alice.tenant_id, zone="us-east-1b")
    quote = await alice.post("/v1/quotes", json=body())
    assert quote.status_code == 201, quote.text
    assert {candidate["offering"]["zone"] for candidate in quote.json()["plan"]["candidates"]} == {"us-east-1b"}
    assert holder(fleet, volume_id) is None, "a quote claims nothing"
    other = {"quote_id": quote.json()["id"], "volumes": [{"name": "data", "path": "/other"}]}
    differs = await alice.post("/v1/leases", json=other)
    assert differs.json()["errors"][0]["pointer"] == "#/body/volumes"
    lease = await alice.post("/v1/leases", json={"quote_id": quote.json()["id"]})
    assert lease.status_code == 201, lease.text
    assert holder(fleet, volume_id) == lease.json()["id"]


async def test_a_group_mounts_no_volume(alice: Caller, fleet: Fleet) -> None:
    fleet.volume(alice.tenant_id)
    refused = await alice.post("/v1/groups", json={"name": "g", "size": 1, "lease": body()})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/body/lease/volumes"


async def test_a_refused_lease_holds_no_volume(alice: Caller, fleet: Fleet) -> None:
    volume_id = fleet.volume(alice.tenant_id)
    fleet.run("UPDATE quota SET \"limit\" = 0 WHERE resource = 'gpus'")
    refused = await alice.post("/v1/leases", json=body())
    assert refused.json()["code"] == "quota_exceeded"
    assert holder(fleet, volume_id) is None
