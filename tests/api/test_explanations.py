"""GET /v1/leases/{id}/explain."""

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from app.api.schemas.explanations import LeaseExplanation
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet

WORDS = "User arn:aws:sts::123456789012:assumed-role/gpulease is not authorized"
REFUSED = {"class": "InsufficientCapacity", "code": "InsufficientInstanceCapacity", "message": WORDS}
NOT_LIVE = {"instance_id": None, "vm_state": None, "ended_at": "now()", "clean": True}


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a catalogue that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    made.run("UPDATE account_region SET last_listing_started_at = now()")
    return made


def cool_off(fleet: Fleet, **place: str) -> None:
    where = "".join(f" AND {name} = %s" for name in place)
    fleet.run(
        "UPDATE offering SET cool_until = now() + interval '1 minute', cool_reason = 'no_capacity', "
        f"cool_code = 'InsufficientInstanceCapacity', cool_count = 1 WHERE true{where}",
        *place.values(),
    )


async def create(caller: Caller, **changes: Any) -> str:
    body = {
        "gpu": {"model": "A10G", "min_count": 1},
        "market": "any",
        "ttl_seconds": 7200,
        "wait_seconds": 600,
        **changes,
    }
    made = await caller.post("/v1/leases", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def explain(caller: Caller, lease_id: str) -> dict[str, Any]:
    answer = await caller.get(f"/v1/leases/{lease_id}/explain")
    assert answer.status_code == 200, answer.text
    parsed = LeaseExplanation.model_validate_json(answer.content, strict=True)
    assert json.loads(parsed.model_dump_json(by_alias=True)) == answer.json()
    found: dict[str, Any] = answer.json()
    return found


def verdicts(explanation: dict[str, Any]) -> list[str]:
    return [candidate["verdict"] for candidate in explanation["candidates"]]


async def test_a_new_lease_is_tried_at_once(alice: Caller) -> None:
    found = await explain(alice, await create(alice))
    assert found["code"] == "tries_next"
    assert found["summary"] == "gpulease tries g5.xlarge spot in us-east-1a (aws) at 0.40 USD an hour now."
    assert (verdicts(found), found["suggestions"]) == (["free"] * 4, [])
    assert found["queue"] == {"position": 1, "waiting": 1, "position_in_tenant": 1, "waiting_in_tenant": 1}
    assert {need["resource"]: need["free"] for need in found["quota"]}["gpus"] == 8


async def test_a_lease_that_has_left_the_queue_since_it_was_read_has_no_place_in_it(
    alice: Caller, fleet: Fleet
) -> None:
    lease_id = await create(alice)
    [row] = fleet.run("SELECT id, tenant_id, state, next_due FROM lease")
    explanations = alice.app.state.services.explanations
    place = await explanations._queue(row)
    assert place is not None
    assert place.position == 1
    fleet.run("UPDATE lease SET next_due = next_due + interval '1 minute'")
    assert await explanations._queue(row) is None
    fleet.activate(lease_id)
    assert await explanations._queue(row) is None


async def test_after_refusals_it_shows_each_candidate_and_what_would_fit(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    lease_id = await create(alice, market="on_demand", gpu={"model": "A10G", "min_count": 4})
    refused = {**NOT_LIVE, "state": "refused", "instance_type": "g5.12xlarge", "error": Jsonb(REFUSED)}
    fleet.attempt(lease_id, 1, **refused)
    cool_off(fleet, instance_type="g5.12xlarge")
    fleet.run("UPDATE lease SET next_due = now() + interval '30 seconds'")
    found = await explain(alice, lease_id)
    assert found["code"] == "no_capacity"
    assert "The only offering that fits is in cool-off; gpulease tries again at" in found["summary"]
    [candidate] = found["candidates"]
    assert (candidate["verdict"], candidate["last_attempt"]["n"]) == ("cooling_off", 1)
    assert candidate["cool_off_until"] is not None
    assert candidate["last_attempt"]["error"]["code"] == "InsufficientInstanceCapacity"
    assert found["next_try_at"] > found["as_of"]
    suggestion, other_model = found["suggestions"]
    assert (suggestion["code"], suggestion["change"]["gpu"]["min_count"]) == ("gpu_count", 1)
    assert other_model["message"] == "Request the GPU model A100."
    body = {"ttl_seconds": 7200, "market": "on_demand", **suggestion["change"]}
    plan = (await alice.post("/v1/leases/plan", json=body)).json()
    assert plan["candidates"][0]["offering"]["instance_type"] == suggestion["offering"]["instance_type"]
    assert WORDS not in json.dumps(found)
    assert WORDS in json.dumps(await explain(operator, lease_id))


async def test_over_quota_names_what_is_missing(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice, gpu={"model": "A10G", "count": 4})
    limits = {"limits": [{"resource": "spend_per_hour", "limit": "2"}]}
    assert (await operator.patch(f"/v1/tenants/{alice.tenant_id}/quotas", json=limits)).status_code == 200
    fleet.run("UPDATE offering SET price_per_hour = 9 WHERE instance_type = 'g5.12xlarge'")
    found = await explain(alice, lease_id)
    assert (found["code"], verdicts(found)) == ("over_quota", ["over_quota"])
    assert "it needs 9.00 spend_per_hour, and the quota has 2.00 left" in found["candidates"][0]["message"]
    spend = next(need for need in found["quota"] if need["resource"] == "spend_per_hour")
    assert (spend["needed"], spend["free"], spend["reserved"], spend["fits"]) == ("9.00", "2.00", "5.672", False)


async def test_a_price_cap_names_the_cheapest_offering_above_it(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice, market="on_demand", max_price_per_hour="1.01")
    fleet.run("UPDATE offering SET price_per_hour = price_per_hour + 1")
    found = await explain(alice, lease_id)
    assert (found["code"], found["candidates"]) == ("nothing_fits", [])
    caps = next(group for group in found["excluded"] if group["code"] == "price_cap")
    assert (caps["count"], caps["message"]) == (3, "3 offerings cost more than max_price_per_hour")
    assert caps["nearest"]["price_per_hour"] == "2.006"
    assert [one["change"] for one in found["suggestions"]] == [{"max_price_per_hour": "2.006"}]


async def test_a_region_without_a_listing_is_named(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    fleet.run("UPDATE account_region SET last_listing_started_at = NULL")
    found = await explain(alice, lease_id)
    assert (found["code"], set(verdicts(found))) == ("region_not_listed", {"region_not_listed"})
    assert "once its inventory has listed it" in found["candidates"][0]["message"]


async def test_a_worker_that_started_after_the_listing_waits_for_the_next(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    fleet.run("UPDATE account_region SET last_listing_started_at = now() - interval '1 hour'")
    fleet.run("INSERT INTO worker_heartbeat (name, kind) VALUES ('w', 'worker')")
    assert (await explain(alice, lease_id))["code"] == "region_not_listed"


async def test_brakes_and_a_paused_account_say_who_must_act(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    stop = {"stopped": True, "note": "a secret drill"}
    assert (await operator.put("/v1/ops/launches", json=stop)).is_success
    found = await explain(alice, lease_id)
    assert (found["code"], found["next_try_at"]) == ("launches_stopped", None)
    assert "drill" not in json.dumps(found)
    fleet.run("UPDATE installation SET launches_stopped = NULL")
    fleet.run("UPDATE account SET state = 'failing', last_error = %s", Jsonb({"message": WORDS}))
    found = await explain(alice, lease_id)
    assert (found["code"], found["excluded"][0]["code"]) == ("nothing_fits", "account")
    assert WORDS not in json.dumps(found)
    assert WORDS in json.dumps(await explain(operator, lease_id))


async def test_the_position_counts_the_leases_of_others(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    first, second = await create(bob, name="bobs"), await create(alice)
    fleet.run("UPDATE lease SET next_due = created_at")
    assert (await explain(bob, first))["queue"]["position"] == 1
    found = await explain(alice, second)
    assert found["queue"] == {"position": 2, "waiting": 2, "position_in_tenant": 1, "waiting_in_tenant": 1}
    assert first not in json.dumps(found)
    assert "bobs" not in json.dumps(found)
    assert (await alice.get(f"/v1/leases/{first}/explain")).status_code == 404


async def test_every_later_state_has_a_sentence(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    fleet.attempt(lease_id, 1, state="sent", instance_id=None, vm_state=None)
    fleet.set_lease(lease_id, state="provisioning")
    fleet.run("UPDATE offering SET ready_seconds = 42")
    found = await explain(alice, lease_id)
    assert (found["code"], found["typical_ready_seconds"], found["queue"]) == ("launching", 42.0, None)
    assert verdicts(found).count("launching") == 1
    fleet.run("UPDATE attempt SET state = 'known', instance_id = 'i-1', vm_state = 'pending', known_at = now()")
    assert (await explain(alice, lease_id))["code"] == "starting"
    fleet.set_lease(lease_id, state="booting")
    found = await explain(alice, lease_id)
    assert (found["code"], found["candidates"]) == ("booting", [])
    fleet.run("DELETE FROM attempt")
    fleet.activate(lease_id)
    assert (await explain(alice, lease_id))["code"] == "active"
    await alice.delete(f"/v1/leases/{lease_id}")
    assert (await explain(alice, lease_id))["code"] == "releasing"
    fleet.run("UPDATE lease SET reason = jsonb_set(reason, '{message}', to_jsonb('x; not ended yet: a disk'::text))")
    found = await explain(alice, lease_id)
    assert (found["code"], "cannot end yet: a disk;" in found["summary"]) == ("release_blocked", True)
    fleet.finish(lease_id)
    assert (await explain(alice, lease_id))["code"] == "ended"


async def test_a_failed_lease_says_whether_the_same_request_would_fit_now(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    reason = {"code": "capacity_exhausted", "message": "2 offerings refused", "origin": "provider", "retryable": True}
    fleet.set_lease(lease_id, desired="end", reason=reason)
    fleet.finish(lease_id, "failed")
    found = await explain(alice, lease_id)
    assert (found["code"], found["retryable"], found["next_try_at"]) == ("ended", True, None)
    assert "the same request would now get g5.xlarge spot" in found["summary"]


async def test_an_unchanged_explanation_is_not_sent_again(alice: Caller, fleet: Fleet) -> None:
    lease_id = await create(alice)
    fleet.run("UPDATE lease SET next_due = now() + interval '1 hour'")
    first = await alice.get(f"/v1/leases/{lease_id}/explain")
    again = await alice.get(f"/v1/leases/{lease_id}/explain", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
