"""Reservations over the API: who sees which, what a request may use, and how far a lease in one is extended."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from app.api.schemas.reservations import ReservationPage
from app.domain.reservations import ENDING_MARGIN
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import TYPES, Fleet

ENDS_IN = timedelta(hours=6)


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a catalogue that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def now(fleet: Fleet) -> datetime:
    at: datetime = fleet.run("SELECT now() AS at")[0]["at"]
    return at


def reserve(fleet: Fleet, name: str, **changes: Any) -> None:
    model, count, memory, vcpus, ram = TYPES["g5.xlarge"]
    row = {
        "account": "main",
        "name": name,
        "kind": "capacity_block",
        "provider": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "g5.xlarge",
        "gpu_model": model,
        "gpu_count": count,
        "gpu_memory_gib": memory,
        "gpu_interconnect": "PCIe",
        "gpu_driver": "nvidia",
        "gpu_parts": 1,
        "local_disk_gib": 0,
        "vcpus": vcpus,
        "memory_gib": ram,
        "price_per_hour": "0",
        "tenants": [],
        "slots": 2,
        "free": 2,
        "ends_at": now(fleet) + ENDS_IN,
        "observed_at": now(fleet),
        **changes,
    }
    fleet.run(f"INSERT INTO reservation ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", *row.values())


def wish(**changes: Any) -> dict[str, Any]:
    return {"instance_types": ["g5.xlarge"], "market": "reserved", "ttl_seconds": 3600, **changes}


async def names(caller: Caller) -> list[str]:
    answer = await caller.get("/v1/reservations")
    ReservationPage.model_validate_json(answer.content, strict=True)
    return [one["name"] for one in answer.json()["items"]]


async def test_a_tenant_sees_and_uses_only_the_reservations_that_it_may_use(
    fleet: Fleet, operator: Caller, alice: Caller, bob: Caller
) -> None:
    reserve(fleet, "for-alice", tenants=[alice.tenant_id])
    reserve(fleet, "for-all", free=0)
    assert await names(operator) == ["for-alice", "for-all"]
    assert await names(alice) == ["for-alice", "for-all"]
    assert await names(bob) == ["for-all"]
    shown = {one["name"]: one for one in (await alice.get("/v1/reservations")).json()["items"]}
    assert (shown["for-alice"]["tenants"], shown["for-alice"]["free"]) == (None, 2)
    assert shown["for-all"]["status"] == "unavailable"
    assert "for-alice" not in (await bob.get("/v1/offerings")).text

    for caller, expected in ((alice, ["for-alice", "for-all"]), (bob, ["for-all"])):
        plan = await caller.post("/v1/leases/plan", json=wish())
        assert sorted(one["offering"]["reservation"]["name"] for one in plan.json()["candidates"]) == expected
        assert ("for-alice" in plan.text) == (caller is alice), "a tenant does not learn of others' reservations"
    first = (await alice.post("/v1/leases/plan", json=wish(market="any"))).json()["candidates"][0]
    assert (first["offering"]["market"], first["price_for_term"]) == ("reserved", "0.00")


async def test_a_lease_is_neither_admitted_nor_extended_beyond_the_end_of_its_reservation(
    fleet: Fleet, alice: Caller
) -> None:
    reserve(fleet, "block")
    too_long = await alice.post("/v1/leases", json=wish(ttl_seconds=int(ENDS_IN.total_seconds())))
    assert (too_long.status_code, too_long.json()["code"]) == (409, "no_offering")
    assert "request a ttl_seconds of at most" in str(too_long.json()["excluded"])

    made = await alice.post("/v1/leases", json=wish())
    assert made.status_code == 201, made.text
    lease_id = made.json()["id"]
    fleet.activate(lease_id)
    until = now(fleet) + ENDS_IN - ENDING_MARGIN
    placement = fleet.run("SELECT placement FROM lease WHERE id = %s", lease_id)[0]["placement"]
    fleet.set_lease(lease_id, placement=placement | {"reservation": "block", "reserved_until": until.isoformat()})
    allowed = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert allowed.status_code == 200, allowed.text
    assert allowed.json()["placement"]["reservation"] == "block"
    refused = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 5 * 3600})
    assert (refused.status_code, refused.json()["code"]) == (422, "term_exceeded")
    assert "the reservation in which its VM runs ends then" in refused.json()["detail"]
    assert refused.json()["latest_expires_at"] == until.isoformat().replace("+00:00", "Z")


async def test_an_explanation_names_only_the_reservations_of_the_leases_tenant(
    fleet: Fleet, operator: Caller, alice: Caller, bob: Caller
) -> None:
    reserve(fleet, "for-alice", tenants=[alice.tenant_id], free=0)
    reserve(fleet, "long", ends_at=now(fleet) + 30 * ENDS_IN, free=0)
    asked = wish(market="any", max_price_per_hour="0.10", wait_seconds=600)
    texts = {}
    for caller in (alice, bob):
        made = await caller.post("/v1/leases", json=asked)
        assert made.status_code == 201, made.text
        texts[caller] = await caller.get(f"/v1/leases/{made.json()['id']}/explain")
        seen_by_operators = await operator.get(f"/v1/leases/{made.json()['id']}/explain")
        assert ("for-alice" in seen_by_operators.text) == (caller is alice)
    assert "for-alice" in texts[alice].text
    assert "for-alice" not in texts[bob].text
    explanation = texts[bob].json()
    assert explanation["code"] == "no_capacity"
    [candidate] = explanation["candidates"]
    assert (candidate["verdict"], candidate["offering"]["reservation"]) == ("no_slot", "long")
    assert "no slot of reservation long is free" in candidate["message"]
