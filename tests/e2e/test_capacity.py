"""What happens when the cloud has no room."""

from contextlib import ExitStack
from datetime import datetime

from tests.e2e.cloud import Cloud
from tests.e2e.people import Json, Tenant

AN_L4: Json = {"instance_types": ["g6.xlarge"], "regions": ["us-east-1"], "market": "on_demand", "ttl_seconds": 3600}


def test_two_full_zones_are_passed_over_and_cool_off(tenant: Tenant, cloud: Cloud) -> None:
    wish = {**AN_L4, "name": "third choice"}
    zones = [candidate["offering"]["zone"] for candidate in tenant.plan(wish)["candidates"]]
    with ExitStack() as full:
        for zone in zones[:2]:
            full.enter_context(cloud.capacity(0, zone=zone, instance_type="g6.xlarge", market="on_demand"))
        lease_id = tenant.create(wish)
        lease = tenant.wait(lease_id, "active")
    assert lease["placement"]["zone"] == zones[2]

    attempts = tenant.attempts(lease_id)
    assert [attempt["offering"]["zone"] for attempt in attempts] == zones[:3]
    assert [attempt["outcome"] for attempt in attempts] == ["refused", "refused", "launched"]
    refusal = {attempt["error"]["code"] for attempt in attempts[:2]}
    assert refusal == {"InsufficientInstanceCapacity"}

    offerings = tenant.items("/v1/offerings", instance_type="g6.xlarge", region="us-east-1", market="on_demand")
    known = {offering["zone"]: offering["availability"] for offering in offerings}
    for zone in zones[:2]:
        assert (known[zone]["status"], known[zone]["reason"]) == ("cooling_off", "no_capacity")
        assert datetime.fromisoformat(known[zone]["until"]) > datetime.fromisoformat(attempts[1]["ended_at"])
    assert known[zones[2]]["status"] == "available"


def test_without_room_anywhere_a_lease_fails_or_waits_as_it_was_asked(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.capacity(0, instance_type="g6.xlarge"):
        impatient = tenant.create({**AN_L4, "name": "impatient"})
        patient = tenant.create({**AN_L4, "name": "patient", "wait_seconds": 120})
        failed = tenant.wait(impatient, "failed", "active")
        assert failed["reason"]["code"] == "capacity_exhausted"
        assert failed["attempts_count"] == len({attempt["offering"]["zone"] for attempt in tenant.attempts(impatient)})
        waiting = tenant.wait(patient, "queued")
    assert waiting["terminal"] is False
    tenant.wait(patient, "active")
