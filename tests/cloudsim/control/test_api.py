from typing import Any

import httpx
import pytest

from cloudsim.settings import PROFILES
from cloudsim.testing import NO_TLS, Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Clients, Launch
from tests.cloudsim.refusals import refused


def test_the_ground_truth_has_the_promised_fields(launch: Launch, sim: Control, clock: ManualClock) -> None:
    instance = launch(
        ClientToken="t", TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "vm"}]}]
    )
    clock.forward(1)
    (truth,) = sim.instances()
    assert truth == {
        "provider": "aws",
        "account": "000000000001",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "id": instance["InstanceId"],
        "name": "vm",
        "instance_type": "g5.xlarge",
        "market": "on_demand",
        "state": "running",
        "alive": True,
        "ready": True,
        "tags": {"Name": "vm"},
        "token": "t",
        "image": instance["ImageId"],
        "launched_at": "2026-11-20T12:14:56.000Z",
        "ending_at": None,
        "ended_at": None,
        "end_reason": None,
        "boot_failure": None,
        "reclaim_at": None,
        "gpus": None,
    }


def test_the_ground_truth_can_be_narrowed(sim: Control) -> None:
    (mine,) = sim.plant(region="us-east-1", instance_type="g5.xlarge", tags={"a": "1"})
    (other,) = sim.plant(region="eu-west-1", instance_type="g5.xlarge", account="000000000009")
    sim.stop(other)

    def found(**filters: str) -> list[str]:
        return [truth["id"] for truth in sim.instances(**filters)]

    assert found(provider="aws") == [mine, other]
    assert found(region="eu-west-1") == found(account="000000000009") == found(id=other) == [other]
    assert found(tag="a:1") == [mine]
    assert found(tag="a:2") == []
    assert found(provider="gcp") == []
    assert {item["instance_id"] for item in sim.resources(region="us-east-1")} == {mine}
    with pytest.raises(httpx.HTTPStatusError, match="unknown filter colour"):
        sim.instances(colour="red")
    with pytest.raises(httpx.HTTPStatusError, match="alive is true or false"):
        sim.instances(alive="maybe")


def test_planted_vms_are_seen_by_their_owner_at_once(clients: Clients, ec2: Any, sim: Control) -> None:
    sim.settings(list_lag_seconds=100)
    (vm,) = sim.plant(
        region="us-east-1",
        zone="us-east-1c",
        instance_type="p4d.24xlarge",
        market="spot",
        tags={"gpulease": "x"},
        token="lost",
        age_seconds=3600,
    )
    (seen,) = ec2.describe_instances(InstanceIds=[vm])["Reservations"][0]["Instances"]
    assert seen["State"]["Name"] == "running"
    assert seen["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert seen["LaunchTime"].isoformat().startswith("2026-11-20T11:14:56")
    assert ec2.describe_instance_status(InstanceIds=[vm])["InstanceStatuses"][0]["InstanceStatus"]["Status"] == "ok"
    sim.interrupt(vm, 0)


def test_a_planted_token_belongs_to_the_planted_vm(launch: Launch, sim: Control) -> None:
    sim.plant(region="us-east-1", zone="us-east-1a", instance_type="g5.xlarge", token="t")
    with refused("IdempotentParameterMismatch"):
        launch(ClientToken="t", Placement={"AvailabilityZone": "us-east-1a"})


def test_somebody_ends_a_vm_behind_our_back(ec2: Any, launch: Launch, sim: Control, clock: ManualClock) -> None:
    one, two = launch()["InstanceId"], launch()["InstanceId"]
    sim.stop(one)
    sim.stop(two, initiator="instance")
    clock.forward(1)
    reasons = {
        vm["InstanceId"]: vm["StateReason"]["Code"]
        for reservation in ec2.describe_instances()["Reservations"]
        for vm in reservation["Instances"]
    }
    assert reasons == {one: "Client.UserInitiatedShutdown", two: "Client.InstanceInitiatedShutdown"}


def test_calls_are_counted_refused_ones_too(ec2: Any, launch: Launch, sim: Control) -> None:
    launch()
    sim.fault("RunInstances", "error")
    with refused("InternalError"):
        launch()
    ec2.describe_instances()
    calls = sim.calls()
    assert (calls["RunInstances"], calls["DescribeInstances"]) == (2, 1)
    assert sim.call("GET", "calls?region=us-east-1")["aws"] == calls
    assert sim.call("GET", "calls?region=us-west-2")["aws"] == {}


def test_a_reset_leaves_nothing(ec2: Any, launch: Launch, sim: Control) -> None:
    launch()
    ec2.create_security_group(GroupName="g", Description="g")
    sim.capacity(0)
    sim.quota("L-DB2E81BA", 0)
    sim.settings(boot_seconds=99)
    sim.credentials(bad=["AKIATEST"])
    sim.offered("us-east-1a", "g5.xlarge", False)
    sim.fault("RunInstances", "hang", times=None)
    sim.reset()
    assert (sim.instances(), sim.resources(), sim.faults(), sim.calls()) == ([], [], [], {})
    assert sim.call("GET", "settings") == PROFILES["fast"].model_dump()
    assert launch()["Placement"]["AvailabilityZone"] == "us-east-1a"


def test_health_tells_how_much_there_is(sim: Control) -> None:
    sim.plant(region="us-east-1", instance_type="g5.xlarge", count=3)
    assert sim.call("GET", "health") == {"status": "ok", "instances": 3, "alive": 3}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "capacity", {"provider": "aws", "available": -1}),
        ("PUT", "capacity", {"provider": "aws"}),
        ("PUT", "capacity", {"provider": "aws", "available": 1, "zone": "us-east-1z"}),
        ("PUT", "capacity", {"provider": "aws", "available": 1, "region": "us-west-2", "zone": "us-east-1a"}),
        ("PUT", "capacity", {"provider": "aws", "available": 1, "instance_type": "x"}),
        ("PUT", "capacity", {"provider": "aws", "available": 1, "market": "black"}),
        ("PUT", "capacity", {"provider": "aws", "available": 1, "regoin": "us-east-1"}),
        ("PUT", "settings", {"boot_seconds": -1}),
        ("PUT", "settings", {"boot": 1}),
        ("PUT", "settings", [1]),
        ("PUT", "quota", {"provider": "aws", "code": "L-0", "value": 1}),
        ("PUT", "credentials", {"good": []}),
        ("PUT", "credentials", {"accounts": {"AKIA": "12"}}),
        ("PUT", "offered", {"provider": "aws", "zone": "moon", "instance_type": "g5.xlarge", "offered": True}),
        ("POST", "instances", {"provider": "aws", "region": "moon", "instance_type": "g5.xlarge"}),
        ("POST", "instances", {"provider": "aws", "region": "us-east-1", "instance_type": "x"}),
        (
            "POST",
            "instances",
            {"provider": "aws", "region": "us-east-1", "instance_type": "g5.xlarge", "token": "t", "count": 2},
        ),
        (
            "POST",
            "instances",
            {"provider": "aws", "region": "us-east-1", "zone": "us-west-2a", "instance_type": "g5.xlarge"},
        ),
        ("POST", "stop", {"provider": "aws", "instance_id": "i-1"}),
        ("POST", "interrupt", {"provider": "aws", "instance_id": "i-1", "notice_seconds": -5}),
    ],
)
def test_senseless_wishes_are_refused_in_words(sim: Control, method: str, path: str, body: Any) -> None:
    answer = httpx.request(method, f"{sim.url}/_sim/{path}", json=body, trust_env=False, verify=NO_TLS)
    assert answer.status_code == 422
    assert answer.json()["detail"]


@pytest.mark.parametrize(("method", "path"), [("PUT", "settings"), ("POST", "faults"), ("PUT", "capacity")])
def test_bodies_that_are_no_json_are_refused(sim: Control, method: str, path: str) -> None:
    answer = httpx.request(method, f"{sim.url}/_sim/{path}", content=b"{", trust_env=False, verify=NO_TLS)
    assert answer.status_code == 422


def test_only_what_exists_can_be_protected(sim: Control) -> None:
    (vm,) = sim.plant(region="us-east-1", instance_type="g5.xlarge")
    sim.protect(vm)
    for provider, name in (("aws", "i-0"), ("gcp", vm)):
        with pytest.raises(httpx.HTTPStatusError, match="no VM or resource"):
            sim.protect(name, provider=provider)
