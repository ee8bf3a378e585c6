"""`max_cost` of a lease: set at the creation, changed by PATCH, and what it shows."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def make(caller: Caller, **changes: Any) -> dict[str, Any]:
    answer = await caller.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 36_000, **changes})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def bill(fleet: Fleet, lease_id: str, rate: str, hours: int) -> None:
    """The lease is billed since `hours` ago at `rate` USD an hour, a tenth of it for disks."""
    set_rate = (
        "UPDATE lease SET state = 'booting', rate_per_hour = %s, disk_rate_per_hour = %s, rate_since = now() - %s"
    )
    fleet.run(f"{set_rate} WHERE id = %s", rate, float(rate) / 10, timedelta(hours=hours), lease_id)


def at(lease: dict[str, Any], name: str) -> datetime:
    return datetime.fromisoformat(lease[name])


async def test_a_lease_shows_its_cap_its_key_and_its_end(alice: Caller) -> None:
    lease = await make(alice, max_cost="12.5")
    key = (await alice.get("/v1/me")).json()
    assert (lease["max_cost"], lease["ends_at"], lease["quote_id"]) == ("12.50", lease["expires_at"], None)
    assert lease["key_id"] == key["key_id"]
    assert lease["cost"]["parts"] is None


async def test_without_a_cap_there_is_none(alice: Caller) -> None:
    assert (await make(alice))["max_cost"] is None


async def test_a_change_of_the_cap_moves_the_end(alice: Caller, fleet: Fleet) -> None:
    path = f"/v1/leases/{(await make(alice))['id']}"
    bill(fleet, path.rpartition("/")[2], "2", hours=1)
    capped = (await alice.patch(path, json={"max_cost": "6"})).json()
    assert abs(at(capped, "ends_at") - at(capped["cost"], "as_of") - 2 * HOUR) < timedelta(minutes=1)
    assert capped["cost"]["parts"] == {"compute": "1.80", "disk": "0.20", "address": None}
    raised = (await alice.patch(path, json={"max_cost": "8"})).json()
    assert at(raised, "ends_at") - at(capped, "ends_at") == HOUR
    free = (await alice.patch(path, json={"max_cost": None})).json()
    assert (free["max_cost"], free["ends_at"]) == (None, free["expires_at"])
    kinds = [row["data"]["max_cost"] for row in fleet.run("SELECT data FROM event WHERE type = 'lease.updated'")]
    assert kinds == ["6.00", "8.00", None]


async def test_a_cap_below_the_accrued_cost_is_refused(alice: Caller, fleet: Fleet) -> None:
    path = f"/v1/leases/{(await make(alice))['id']}"
    bill(fleet, path.rpartition("/")[2], "2", hours=3)
    answer = await alice.patch(path, json={"max_cost": "5.99"})
    error = answer.json()["errors"][0]
    assert (answer.status_code, error["pointer"]) == (422, "#/body/max_cost")
    assert "must be at least 6.0" in error["detail"]


@pytest.mark.parametrize("amount", ["0", "-1", "1.0000001", "NaN", "Infinity", ""])
async def test_a_cap_that_is_no_amount_is_refused(alice: Caller, amount: str) -> None:
    body = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "max_cost": amount}
    created = await alice.post("/v1/leases", json=body)
    path = f"/v1/leases/{(await make(alice))['id']}"
    changed = await alice.patch(path, json={"max_cost": amount})
    for answer in (created, changed):
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/body/max_cost")


async def test_a_cap_that_pays_for_no_minute_is_refused_with_the_reason(alice: Caller) -> None:
    body = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "max_cost": "0.01"}
    answer = await alice.post("/v1/leases", json=body)
    entries = {entry["code"]: entry["nearest"] for entry in answer.json()["excluded"]}
    assert (answer.status_code, answer.json()["code"]) == (409, "no_offering")
    assert "1.006 USD an hour, and 0.01 USD of max_cost are left" in entries["spend_cap"]


async def test_what_the_cap_pays_for_is_planned(alice: Caller) -> None:
    body = {"gpu": {"model": "A10G", "min_count": 1}, "ttl_seconds": 3600, "max_cost": "0.05"}
    plan = (await alice.post("/v1/leases/plan", json=body)).json()
    assert {one["offering"]["instance_type"] for one in plan["candidates"]} == {"g5.xlarge"}
    assert "spend_cap" in {group["code"] for group in plan["excluded_by_reason"]}


async def test_a_lease_that_ends_keeps_its_cap(alice: Caller) -> None:
    path = f"/v1/leases/{(await make(alice, max_cost='5'))['id']}"
    await alice.delete(path)
    answer = await alice.patch(path, json={"max_cost": "6"})
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_ending")


async def test_a_cap_is_not_raised_where_the_cloud_ends_the_vm_by_it(alice: Caller, fleet: Fleet) -> None:
    lease_id = (await make(alice, max_cost="5"))["id"]
    fleet.set_lease(lease_id, placement={"extendable": False}, account="main")
    path = f"/v1/leases/{lease_id}"
    answer = await alice.patch(path, json={"max_cost": "6"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_extendable")
    assert (await alice.patch(path, json={"max_cost": "4"})).status_code == 200
