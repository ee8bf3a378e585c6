from typing import Any

import httpx
import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Launch
from tests.cloudsim.refusals import refused

SPOT = {
    "MarketType": "spot",
    "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
}


@pytest.fixture
def spot(launch: Launch, clock: ManualClock) -> dict[str, Any]:
    tags = [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "lease", "Value": "1"}]}]
    instance = launch(InstanceMarketOptions=SPOT, TagSpecifications=tags)
    clock.forward(1)
    return instance


def request(ec2: Any, **parameters: Any) -> dict[str, Any]:
    (found,) = ec2.describe_spot_instance_requests(**parameters)["SpotInstanceRequests"]
    return dict(found)


def status(ec2: Any) -> tuple[str, str]:
    found = request(ec2)
    return found["State"], found["Status"]["Code"]


def seen(ec2: Any, instance: dict[str, Any]) -> dict[str, Any]:
    found = ec2.describe_instances(InstanceIds=[instance["InstanceId"]])
    return dict(found["Reservations"][0]["Instances"][0])


def test_a_spot_instance_has_a_fulfilled_request(ec2: Any, spot: dict[str, Any]) -> None:
    assert spot["InstanceLifecycle"] == "spot"
    found = request(ec2, Filters=[{"Name": "tag:lease", "Values": ["1"]}])
    assert found["SpotInstanceRequestId"] == spot["SpotInstanceRequestId"]
    assert (found["InstanceId"], found["Type"]) == (spot["InstanceId"], "one-time")
    assert status(ec2) == ("active", "fulfilled")


@pytest.mark.parametrize(
    ("cause", "code"), [("no-capacity", "instance-terminated-no-capacity"), ("price", "instance-terminated-by-price")]
)
def test_a_reclaim_gives_notice_then_ends_the_instance(
    ec2: Any, spot: dict[str, Any], sim: Control, clock: ManualClock, cause: str, code: str
) -> None:
    sim.interrupt(spot["InstanceId"], 120, cause=cause)
    assert status(ec2) == ("active", "marked-for-termination")
    marked = [{"Name": "status-code", "Values": ["marked-for-termination"]}]
    assert request(ec2, Filters=marked)["InstanceId"] == spot["InstanceId"]
    clock.forward(119)
    assert seen(ec2, spot)["State"]["Name"] == "running"
    clock.forward(2)
    gone = seen(ec2, spot)
    assert gone["State"]["Name"] == "terminated"
    assert gone["StateReason"]["Code"] == gone["StateTransitionReason"] == "Server.SpotInstanceTermination"
    assert status(ec2) == ("closed", code)


def test_a_reclaim_without_notice_ends_at_once(ec2: Any, spot: dict[str, Any], sim: Control) -> None:
    sim.interrupt(spot["InstanceId"], 0)
    assert seen(ec2, spot)["State"]["Name"] == "shutting-down"


def test_a_user_may_end_a_marked_instance_first(
    ec2: Any, spot: dict[str, Any], sim: Control, clock: ManualClock
) -> None:
    sim.interrupt(spot["InstanceId"], 120)
    ec2.terminate_instances(InstanceIds=[spot["InstanceId"]])
    clock.forward(300)
    assert status_of_truth(sim) == ("terminated", "user")


def status_of_truth(sim: Control) -> tuple[str, str]:
    (truth,) = sim.instances()
    return truth["state"], truth["end_reason"]


def test_a_users_end_closes_the_request(ec2: Any, spot: dict[str, Any]) -> None:
    ec2.terminate_instances(InstanceIds=[spot["InstanceId"]])
    assert status(ec2) == ("closed", "instance-terminated-by-user")


def test_only_spot_instances_are_reclaimed(launch: Launch, sim: Control) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="not a spot VM"):
        sim.interrupt(launch()["InstanceId"], 0)


def test_requests_are_found_by_id(ec2: Any, spot: dict[str, Any]) -> None:
    found = request(ec2, SpotInstanceRequestIds=[spot["SpotInstanceRequestId"]])
    assert found["InstanceId"] == spot["InstanceId"]
    with refused("InvalidSpotInstanceRequestID.NotFound"):
        ec2.describe_spot_instance_requests(SpotInstanceRequestIds=["sir-00000000"])


def test_spot_prices_differ_by_zone_and_lie_below_on_demand(ec2: Any) -> None:
    history = ec2.describe_spot_price_history(InstanceTypes=["p4d.24xlarge"], ProductDescriptions=["Linux/UNIX"])
    prices = {item["AvailabilityZone"]: float(item["SpotPrice"]) for item in history["SpotPriceHistory"]}
    assert set(prices) == {f"us-east-1{letter}" for letter in "abcd"}
    assert len(set(prices.values())) > 1
    assert all(5 < price < 21.957642 for price in prices.values())


def test_a_launch_at_the_spot_price_is_dear_enough(ec2: Any, launch: Launch) -> None:
    history = ec2.describe_spot_price_history(InstanceTypes=["g5.xlarge"], AvailabilityZone="us-east-1a")
    price = history["SpotPriceHistory"][0]["SpotPrice"]
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": price}}
    launch(InstanceMarketOptions=options, Placement={"AvailabilityZone": "us-east-1a"})
