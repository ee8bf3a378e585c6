from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Clients, Launch
from tests.cloudsim.refusals import refused


def listed(ec2: Any, **parameters: Any) -> list[dict[str, Any]]:
    pages = ec2.get_paginator("describe_instances").paginate(**parameters)
    return [vm for page in pages for reservation in page["Reservations"] for vm in reservation["Instances"]]


def ids(vms: list[dict[str, Any]]) -> list[str]:
    return [vm["InstanceId"] for vm in vms]


def by(name: str, *values: str) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": list(values)}]


def test_a_fresh_instance_is_invisible_for_the_list_lag(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    sim.settings(list_lag_seconds=5)
    vm = launch(ClientToken="t")["InstanceId"]
    assert listed(ec2) == listed(ec2, Filters=by("client-token", "t")) == []
    with refused("InvalidInstanceID.NotFound", 400):
        ec2.describe_instances(InstanceIds=[vm])
    with refused("InvalidInstanceID.NotFound", 400):
        ec2.terminate_instances(InstanceIds=[vm])
    assert launch(ClientToken="t")["InstanceId"] == vm
    assert [truth["id"] for truth in sim.instances()] == [vm]
    clock.forward(5)
    assert ids(listed(ec2)) == [vm]


def test_status_checks_pass_after_the_boot(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    vm = launch()["InstanceId"]
    assert ec2.describe_instance_status(InstanceIds=[vm])["InstanceStatuses"] == []
    (pending,) = ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]
    assert pending["InstanceStatus"]["Status"] == "not-applicable"
    clock.forward(0.9)
    (booting,) = ec2.describe_instance_status()["InstanceStatuses"]
    assert booting["SystemStatus"]["Status"] == "initializing"
    clock.forward(0.1)
    (ready,) = ec2.describe_instance_status()["InstanceStatuses"]
    assert ready["InstanceStatus"]["Details"] == [{"Name": "reachability", "Status": "passed"}]


def test_termination_takes_time_and_says_who_wanted_it(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    vm = launch()["InstanceId"]
    (change,) = ec2.terminate_instances(InstanceIds=[vm])["TerminatingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("pending", "shutting-down")
    clock.forward(0.2)
    (seen,) = listed(ec2)
    assert seen["State"] == {"Code": 48, "Name": "terminated"}
    assert seen["StateTransitionReason"] == "User initiated (2026-11-20 12:14:56 GMT)"
    assert seen["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert "PublicIpAddress" not in seen
    (again,) = ec2.terminate_instances(InstanceIds=[vm])["TerminatingInstances"]
    assert again["CurrentState"]["Name"] == "terminated"


def test_a_terminated_instance_is_listed_for_a_while_and_known_longer(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    vm = launch()["InstanceId"]
    ec2.terminate_instances(InstanceIds=[vm])
    clock.forward(60)
    assert ids(listed(ec2)) == [vm]
    clock.forward(1)
    assert listed(ec2) == []
    with refused("InvalidInstanceID.NotFound"):
        ec2.describe_instances(InstanceIds=[vm])
    assert [truth["state"] for truth in sim.instances()] == ["terminated"]
    assert sim.instances(alive="true") == []
    clock.forward(86_400)
    assert sim.instances() == []


def test_what_was_made_with_a_vm_goes_with_it_unless_told_otherwise(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    kept = {"DeviceName": "/dev/sdb", "Ebs": {"VolumeSize": 10, "DeleteOnTermination": False}}
    vm = launch(BlockDeviceMappings=[kept])["InstanceId"]
    assert sorted(item["kind"] for item in sim.resources()) == ["network_interface", "volume", "volume"]
    ec2.terminate_instances(InstanceIds=[vm])
    clock.forward(1)
    (volume,) = ec2.describe_volumes()["Volumes"]
    assert (volume["State"], volume["Size"]) == ("available", 10)
    ec2.delete_volume(VolumeId=volume["VolumeId"])
    assert sim.resources() == []
    with refused("InvalidVolume.NotFound"):
        ec2.delete_volume(VolumeId=volume["VolumeId"])


def test_protected_instances_are_not_terminated(ec2: Any, launch: Launch) -> None:
    with refused("OperationNotPermitted"):
        ec2.terminate_instances(InstanceIds=[launch(DisableApiTermination=True)["InstanceId"]])


def test_nothing_ends_when_one_of_the_ids_is_unknown(ec2: Any, launch: Launch, sim: Control) -> None:
    vm = launch()["InstanceId"]
    with refused("InvalidInstanceID.NotFound"):
        ec2.terminate_instances(InstanceIds=[vm, "i-0123456789abcdef0"])
    with refused("InvalidInstanceID.Malformed"):
        ec2.terminate_instances(InstanceIds=[vm, "vm-1"])
    assert [truth["state"] for truth in sim.instances()] == ["pending"]


def test_a_reboot_needs_an_instance_that_runs(ec2: Any, launch: Launch) -> None:
    vm = launch()["InstanceId"]
    ec2.reboot_instances(InstanceIds=[vm])
    ec2.terminate_instances(InstanceIds=[vm])
    with refused("IncorrectState"):
        ec2.reboot_instances(InstanceIds=[vm])


def test_filters_choose(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    def made(owner: str, **parameters: Any) -> str:
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": owner}, {"Key": owner, "Value": ""}]}]
        return str(launch(TagSpecifications=tags, **parameters)["InstanceId"])

    ann = made("ann", ClientToken="one")
    bob = made("bob", InstanceType="g4dn.xlarge", Placement={"AvailabilityZone": "us-east-1b"})
    clock.forward(1)
    new = made("new")
    cases = {
        ("tag:owner", "ann"): [ann],
        ("tag:owner", "ann", "bob"): [ann, bob],
        ("tag:owner", "?o*"): [bob],
        ("tag:owner", "Ann"): [],
        ("tag-key", "bob"): [bob],
        ("client-token", "one"): [ann],
        ("instance-state-name", "pending"): [new],
        ("availability-zone", "us-east-1b"): [bob],
        ("instance-id", ann, "i-0123456789abcdef0"): [ann],
        ("instance-type", "g4dn.*"): [bob],
    }
    assert {case: ids(listed(ec2, Filters=by(*case))) for case in cases} == cases
    both = [*by("tag:owner", "ann", "bob"), *by("instance-type", "g5.xlarge")]
    assert ids(listed(ec2, Filters=both)) == [ann]


def test_an_unknown_filter_is_refused(ec2: Any) -> None:
    with refused("InvalidParameterValue"):
        ec2.describe_instances(Filters=by("colour", "red"))


@pytest.mark.parametrize("size", [4, 1001])
def test_page_sizes_have_limits(ec2: Any, size: int) -> None:
    with refused("InvalidParameterValue"):
        ec2.describe_instances(MaxResults=size)


def test_ids_and_pages_do_not_mix(ec2: Any, launch: Launch) -> None:
    with refused("InvalidParameterCombination"):
        ec2.describe_instances(InstanceIds=[launch()["InstanceId"]], MaxResults=5)


@pytest.mark.parametrize("token", ["nonsense", "YWZ0ZXI6eA=="])
def test_foreign_page_tokens_are_refused(ec2: Any, token: str) -> None:
    with refused("InvalidNextToken"):
        ec2.describe_instances(NextToken=token)


@pytest.mark.parametrize("filters", [[], by("tag:team", "a")])
def test_pages_lose_and_repeat_nothing_that_stays_while_others_come_and_go(
    ec2: Any, sim: Control, clock: ManualClock, filters: list[Any]
) -> None:
    sim.settings(terminated_visible_seconds=0, cleanup_seconds=0, shutdown_seconds=0)
    planted = sim.plant(region="us-east-1", instance_type="g5.xlarge", tags={"team": "a"}, count=30)
    seen: list[str] = []
    token: dict[str, str] = {}
    for turn in range(5):
        page = ec2.describe_instances(MaxResults=5, Filters=filters, **token)
        seen += [vm["InstanceId"] for reservation in page["Reservations"] for vm in reservation["Instances"]]
        sim.stop(planted[turn])
        sim.stop(planted[29 - turn])
        sim.plant(region="us-east-1", instance_type="g5.xlarge", tags={"team": "a"})
        clock.forward(1)
        token = {"NextToken": page["NextToken"]}
    assert len(seen) == len(set(seen))
    assert set(planted[5:25]) <= set(seen)


def test_regions_and_accounts_see_only_their_own(clients: Clients, ec2: Any, launch: Launch, sim: Control) -> None:
    vm = launch()["InstanceId"]
    for stranger in (clients("ec2", "us-west-2"), clients("ec2", key="AKIAEMPTY0")):
        assert listed(stranger) == []
        with refused("InvalidInstanceID.NotFound"):
            stranger.terminate_instances(InstanceIds=[vm])
    assert ids(listed(ec2)) == [vm]


def test_a_protected_vm_fails_the_call_and_keeps_the_others_of_its_zone(ec2: Any, sim: Control) -> None:
    def plant(zone: str) -> str:
        return sim.plant(region="us-east-1", zone=zone, instance_type="g5.xlarge")[0]

    protected, neighbour, elsewhere = plant("us-east-1a"), plant("us-east-1a"), plant("us-east-1b")
    sim.protect(protected)
    with refused("OperationNotPermitted", 400):
        ec2.terminate_instances(InstanceIds=[elsewhere, neighbour, protected])
    assert {vm["id"] for vm in sim.instances(alive="true") if vm["state"] == "running"} == {protected, neighbour}
    sim.protect(protected, protected=False)
    ec2.terminate_instances(InstanceIds=[neighbour, protected])
    assert {vm["state"] for vm in sim.instances()} == {"shutting-down"}


def test_the_token_of_a_page_expires(ec2: Any, launch: Launch, sim: Control, clock: ManualClock) -> None:
    sim.settings(page_token_seconds=60)
    for _ in range(6):
        launch()
    token = ec2.describe_instances(MaxResults=5)["NextToken"]
    clock.forward(60)
    assert len(ec2.describe_instances(MaxResults=5, NextToken=token)["Reservations"]) == 1
    clock.forward(1)
    with refused("InvalidPaginationToken", 400):
        ec2.describe_instances(MaxResults=5, NextToken=token)


def test_lists_show_fresh_groups_and_volumes_late(ec2: Any, launch: Launch, sim: Control, clock: ManualClock) -> None:
    sim.settings(resource_lag_seconds=10)
    launch()
    group = ec2.create_security_group(GroupName="g", Description="d")["GroupId"]
    ec2.create_placement_group(GroupName="p", Strategy="cluster")
    with refused("InvalidGroup.Duplicate", 400):
        ec2.create_security_group(GroupName="g", Description="d")
    assert ec2.describe_volumes()["Volumes"] == []
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    assert [one["GroupName"] for one in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]
    with refused("InvalidGroup.NotFound", 400):
        ec2.describe_security_groups(GroupIds=[group])
    clock.forward(10)
    assert len(ec2.describe_volumes()["Volumes"]) == 1
    assert len(ec2.describe_placement_groups()["PlacementGroups"]) == 1
    assert len(ec2.describe_security_groups()["SecurityGroups"]) == 2
