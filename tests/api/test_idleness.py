"""Idle leases in the API: what they show, holding idleness off, and floors that members cannot weaken."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

RULE = {"after_seconds": 3600, "action": "end"}
FLOOR = {"after_seconds": 1800, "action": "end", "max_keep_seconds": 7200}
LOCK_AWAITED = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
EVIDENCE = """{"after_seconds": 3600, "action": "end", "idle_percent": 5, "since": "2026-06-01T12:00:00Z",
 "until": "2026-06-01T13:00:00Z", "samples": 60, "gpus": ["GPU-1"], "at": ["2026-06-01T13:00:00Z"], "percentages": [[0]]}"""


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def idle_lease(caller: Caller, fleet: Fleet, **changes: Any) -> str:
    """The path of an active lease that has been idle for half an hour."""
    body = {"gpu": {"model": "A10G"}, "ttl_seconds": 36_000, "idle": RULE, **changes}
    made = await caller.post("/v1/leases", json=body)
    assert made.status_code == 201, made.text
    lease_id = made.json()["id"]
    fleet.activate(lease_id)
    fleet.run("UPDATE lease SET ready_at = now() - interval '2 hours' WHERE id = %s", lease_id)
    fleet.run(
        "INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at, gpu_percent, idle_since,"
        " idle_samples) SELECT id, tenant_id, 'attempt_x', now(), now(), 1, now() - interval '30 minutes', 30"
        " FROM lease WHERE id = %s",
        lease_id,
    )
    return f"/v1/leases/{lease_id}"


def seconds_from(idle: dict[str, Any]) -> float:
    return (datetime.fromisoformat(idle["ends_at"]) - datetime.fromisoformat(idle["since"])).total_seconds()


async def shown(caller: Caller, path: str) -> Any:
    return (await caller.get(path)).json()["idle"]


async def test_a_lease_shows_since_when_it_is_idle_and_when_it_ends(alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    assert seconds_from(await shown(alice, path)) == 3600
    listed = (await alice.get("/v1/leases")).json()["items"]
    assert seconds_from(listed[0]["idle"]) == 3600
    plain = await idle_lease(alice, fleet, idle=None)
    assert (await shown(alice, plain))["ends_at"] is None
    fleet.run("UPDATE gpu_latest SET sampled_at = now() - interval '21 minutes'")
    assert await shown(alice, path) is None, "nothing is known of the present"
    fleet.run("UPDATE gpu_latest SET sampled_at = now(), idle_since = NULL")
    assert await shown(alice, path) is None


async def test_a_keep_holds_idleness_off(alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    member = await alice.member("member")
    kept = await member.post(f"{path}/keep", json={"seconds": 7200})
    assert kept.status_code == 200, kept.text
    idle = kept.json()["idle"]
    assert seconds_from(idle) == pytest.approx(1800 + 7200, abs=60)
    (event,) = fleet.run("SELECT data FROM event WHERE type = 'lease.kept'")
    until = datetime.fromisoformat(event["data"]["keep_until"])
    assert until == datetime.fromisoformat(idle["ends_at"])
    viewer = await alice.member("viewer")
    assert (await viewer.post(f"{path}/keep", json={"seconds": 7200})).status_code == 403
    assert (await member.post(f"{path}/keep", json={"seconds": 59})).status_code == 422


async def test_a_lease_that_ends_is_not_kept(alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    assert (await alice.delete(path)).status_code == 202
    refused = await alice.post(f"{path}/keep", json={"seconds": 7200})
    assert (refused.status_code, refused.json()["code"]) == (409, "lease_ending")
    assert (await alice.get(path)).json()["idle"] is None


async def test_nobody_keeps_the_lease_of_another_tenant(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    assert (await bob.post(f"{path}/keep", json={"seconds": 7200})).status_code == 404
    assert (await bob.get(f"{path}/idle-evidence")).status_code == 404


async def test_a_repeated_keep_is_answered_as_the_first(alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    key = {"Idempotency-Key": "one"}
    first = await alice.post(f"{path}/keep", json={"seconds": 7200}, headers=key)
    again = await alice.post(f"{path}/keep", json={"seconds": 7200}, headers=key)
    assert first.json() == again.json()
    assert fleet.run("SELECT count(*) AS n FROM event WHERE type = 'lease.kept'") == [{"n": 1}]


async def test_a_floor_is_set_by_operators_and_shown_to_its_tenant(
    operator: Caller, alice: Caller, bob: Caller, fleet: Fleet
) -> None:
    path = f"/v1/tenants/{alice.tenant_id}/idle-floor"
    assert (await alice.get(path)).status_code == 404
    assert (await alice.put(path, json=FLOOR)).status_code == 403
    made = await operator.put(path, json=FLOOR)
    assert (made.status_code, made.json()) == (200, FLOOR)
    assert (await alice.get(path)).json() == FLOOR
    assert (await bob.get(path)).status_code == 404
    assert (await alice.get("/v1/me")).json()["tenant"]["idle_floor"] == FLOOR
    assert (await alice.get(f"/v1/tenants/{alice.tenant_id}")).json()["idle_floor"] == FLOOR
    assert (await alice.delete(path)).status_code == 403
    assert (await operator.delete(path)).status_code == 204
    assert (await operator.delete(path)).status_code == 204
    assert (await operator.get(path)).status_code == 404
    assert (await operator.put(path, json={**FLOOR, "after_seconds": 899})).status_code == 422


async def test_a_floor_applies_at_once_and_bounds_a_keep(operator: Caller, alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet, idle={"after_seconds": 86_400, "action": "notify"})
    assert (await shown(alice, path))["ends_at"] is None
    await operator.put(f"/v1/tenants/{alice.tenant_id}/idle-floor", json=FLOOR)
    assert seconds_from(await shown(alice, path)) == 1800
    refused = await alice.post(f"{path}/keep", json={"seconds": 7201})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/body/seconds")
    assert (await alice.post(f"{path}/keep", json={"seconds": 7200})).status_code == 200
    assert (await operator.post(f"{path}/keep", json={"seconds": 7201})).status_code == 200


async def test_a_floor_bounds_what_was_kept_before_it(
    operator: Caller, alice: Caller, bob: Caller, fleet: Fleet
) -> None:
    """A year that a member kept its lease the day before counts for no longer than one call from now on may keep it."""
    kept, short = await idle_lease(alice, fleet), await idle_lease(alice, fleet)
    others = await idle_lease(bob, fleet)
    for caller, path, seconds in ((alice, kept, 31_536_000), (alice, short, 3600), (bob, others, 31_536_000)):
        assert (await caller.post(f"{path}/keep", json={"seconds": seconds})).status_code == 200
    floor = f"/v1/tenants/{alice.tenant_id}/idle-floor"
    assert (await operator.put(floor, json={**FLOOR, "max_keep_seconds": None})).status_code == 200
    assert seconds_from(await shown(alice, kept)) > 31_000_000
    assert (await operator.put(floor, json=FLOOR)).status_code == 200
    assert seconds_from(await shown(alice, kept)) == pytest.approx(1800 + 7200, abs=60)
    assert seconds_from(await shown(alice, short)) == pytest.approx(1800 + 3600, abs=60)
    assert seconds_from(await shown(bob, others)) > 31_000_000
    assert (await operator.post(f"{kept}/keep", json={"seconds": 31_536_000})).status_code == 200
    assert (await operator.put(floor, json=FLOOR)).status_code == 200
    assert seconds_from(await shown(alice, kept)) > 31_000_000, "an operator's exception stays while the floor does"


async def test_a_floor_bounds_a_keep_that_is_written_at_the_same_time(
    operator: Caller, alice: Caller, fleet: Fleet
) -> None:
    path = await idle_lease(alice, fleet)
    with fleet.connection() as member, member.transaction():
        member.execute("UPDATE lease SET keep_until = now() + interval '1 year'")
        floor = asyncio.create_task(operator.put(f"/v1/tenants/{alice.tenant_id}/idle-floor", json=FLOOR))
        while not floor.done() and not fleet.run(LOCK_AWAITED):  # noqa: ASYNC110 - another session makes it true
            await asyncio.sleep(0.02)
    assert (await floor).status_code == 200
    assert seconds_from(await shown(alice, path)) == pytest.approx(1800 + 7200, abs=60)


async def test_the_evidence_stays_with_the_lease(alice: Caller, fleet: Fleet) -> None:
    path = await idle_lease(alice, fleet)
    assert (await alice.get(f"{path}/idle-evidence")).status_code == 404
    fleet.run("UPDATE lease SET idle_evidence = %s::jsonb", EVIDENCE)
    found = (await alice.get(f"{path}/idle-evidence")).json()
    assert (found["samples"], found["percentages"]) == (60, [[0]])
    assert datetime.fromisoformat(found["until"]) - datetime.fromisoformat(found["since"]) == timedelta(hours=1)
