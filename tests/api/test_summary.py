"""GET /v1/summary: what a tenant has, what it costs, what needs attention."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from app.api.schemas.summary import Summary
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_usage import WISH


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def create(caller: Caller, name: str) -> str:
    made = await caller.post("/v1/leases", json={**WISH, "name": name})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def summary(caller: Caller, **query: str) -> dict[str, Any]:
    answer = await caller.get("/v1/summary", params=query)
    assert answer.status_code == 200, answer.text
    Summary.model_validate(answer.json())
    found: dict[str, Any] = answer.json()
    return found


async def test_a_new_tenant_has_nothing(alice: Caller) -> None:
    found = await summary(alice)
    assert (found["leases"], found["gpus"], found["by_state"], found["spend_per_hour"]) == (0, 0, [], "0.00")
    assert found["attention"] == {"total": 0, "items": []}
    assert found["tenant_id"] == alice.tenant_id


async def test_leases_are_counted_by_state_with_their_cost(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    fleet.activate(await create(alice, "runs"))
    await create(alice, "waits")
    fleet.activate(await create(bob, "other"))
    found = await summary(alice)
    assert found["by_state"] == [
        {"state": "active", "leases": 1, "gpus": 1},
        {"state": "queued", "leases": 1, "gpus": 0},
    ]
    assert (found["leases"], found["gpus"], found["spend_per_hour"]) == (2, 1, "1.006")
    assert Decimal("0.9") < Decimal(found["accrued"]) <= Decimal("1.006")
    today = datetime.fromisoformat(found["as_of"])
    if today.day > 1 or today.hour:  # the VM has run for an hour
        assert Decimal(found["spend_month_to_date"]) == pytest.approx(Decimal(found["accrued"]), abs=Decimal("0.001"))


async def test_an_operator_sees_all_tenants_or_one(operator: Caller, alice: Caller, bob: Caller, fleet: Fleet) -> None:
    for caller in (alice, bob):
        fleet.activate(await create(caller, "runs"))
    assert (await summary(operator))["leases"] == 2
    assert (await summary(operator, tenant_id=bob.tenant_id))["leases"] == 1
    refused = await alice.get("/v1/summary", params={"tenant_id": bob.tenant_id})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/query/tenant_id")


async def test_what_needs_attention_comes_most_urgent_first(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    taken, failed, ends, slow = [await create(alice, name) for name in ("taken", "failed", "ends", "slow")]
    for lease_id in (taken, ends):
        fleet.activate(lease_id)
    fleet.set_lease(taken, interruption={"notice_at": "2026-11-01T00:00:00Z", "deadline_at": None, "action": "stop"})
    fleet.finish(failed, "failed")
    fleet.set_lease(failed, reason={"code": "no_capacity", "message": "no capacity anywhere"})
    fleet.run("UPDATE lease SET expires_at = now() + interval '5 minutes' WHERE id = %s", ends)
    release = "UPDATE lease SET state = 'releasing', desired = 'end', release_requested_at = now() - interval '1 day' "
    fleet.run(release + "WHERE id = %s", slow)
    fleet.run("UPDATE quota SET \"limit\" = used WHERE resource = 'leases' AND tenant_id = %s", alice.tenant_id)
    found = (await summary(alice))["attention"]
    assert [(one["code"], one["lease_id"], one["name"]) for one in found["items"]] == [
        ("interrupted", taken, "taken"),
        ("stuck", slow, "slow"),
        ("failed", failed, "failed"),
        ("expiring_soon", ends, "ends"),
        ("quota_nearly_used", None, "leases"),
    ]
    assert found["total"] == 5
    assert [one["message"] for one in found["items"]] == [None, "releasing", "no capacity anywhere", None, None]
    assert (await summary(bob))["attention"]["total"] == 0


async def test_of_leases_that_expire_soon_the_next_comes_first(alice: Caller, fleet: Fleet) -> None:
    later, sooner = [await create(alice, name) for name in ("later", "sooner")]
    for lease_id, minutes in ((later, 4), (sooner, 2)):
        fleet.activate(lease_id)
        fleet.run("UPDATE lease SET expires_at = now() + %s * interval '1 minute' WHERE id = %s", minutes, lease_id)
    found = (await summary(alice))["attention"]
    assert [one["name"] for one in found["items"]] == ["sooner", "later"]


async def test_an_unchanged_summary_is_not_sent_again(alice: Caller) -> None:
    for _ in range(3):  # the minute may end in between
        first = await alice.get("/v1/summary")
        again = await alice.get("/v1/summary", headers={"If-None-Match": first.headers["etag"]})
        if again.status_code == 304:
            return
    raise AssertionError("every answer had another ETag")
