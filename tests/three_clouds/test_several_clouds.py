"""One wish that several clouds can serve."""

from datetime import datetime

from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Tenant

EIGHT_A100: Json = {"gpu": {"model": "A100", "count": 8}, "market": "on_demand", "ttl_seconds": 3600}
FROM_CLOUD_TO_CLOUD_SECONDS = 15.0
"""Three on a machine with nothing else to do."""


def test_where_one_cloud_has_no_room_the_cheapest_of_the_others_serves(tenant: Tenant, cloud: Cloud) -> None:
    wish = {**EIGHT_A100, "name": "anywhere"}
    candidates = tenant.plan(wish)["candidates"]
    assert {one["offering"]["provider"] for one in candidates} == {"aws", "gcp", "azure"}
    assert candidates[0]["offering"]["provider"] == "aws"
    elsewhere = [one["offering"] for one in candidates if one["offering"]["provider"] != "aws"]
    cheapest = min(float(one["price_per_hour"]) for one in elsewhere)

    with cloud.capacity(0, market="on_demand"):
        lease_id = tenant.create(wish)
        lease = tenant.wait(lease_id, "active", "failed")
    assert lease["state"] == "active"
    assert lease["placement"]["provider"] in {"gcp", "azure"}
    assert float(lease["placement"]["price_per_hour"]) == cheapest
    assert [vm["provider"] for vm in cloud.vms_of(lease_id)] == [lease["placement"]["provider"]]

    *refused, last = tenant.attempts(lease_id)
    assert {attempt["outcome"] for attempt in refused} == {"refused"}
    refused_at = max(datetime.fromisoformat(attempt["ended_at"]) for attempt in refused)
    assert (datetime.fromisoformat(lease["ready_at"]) - refused_at).total_seconds() < FROM_CLOUD_TO_CLOUD_SECONDS
    assert last["outcome"] == "launched"
