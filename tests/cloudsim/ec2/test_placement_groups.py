"""Placement groups and EFA interfaces. The fixture checks each answer against botocore's model."""

from collections.abc import Callable
from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.refusals import refused

Run = Callable[..., list[dict[str, Any]]]
NAME = "gpulease-group_a"


@pytest.fixture
def run(ec2: Any, ami: str) -> Run:
    def start(most: int = 1, zone: str = "us-east-1a", group: str = NAME, **parameters: Any) -> list[dict[str, Any]]:
        wanted = {"ImageId": ami, "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": most}
        place = {"AvailabilityZone": zone, "GroupName": group}
        instances: list[dict[str, Any]] = ec2.run_instances(**{**wanted, "Placement": place, **parameters})["Instances"]
        return instances

    return start


@pytest.fixture
def group(ec2: Any) -> None:
    tagged = [{"ResourceType": "placement-group", "Tags": [{"Key": "gpulease-group", "Value": "group_a"}]}]
    ec2.create_placement_group(GroupName=NAME, Strategy="cluster", TagSpecifications=tagged)


@pytest.mark.usefixtures("group")
def test_a_group_is_found_by_its_tags_and_its_name_is_taken(ec2: Any) -> None:
    filters = [{"Name": "tag:gpulease-group", "Values": ["group_a"]}]
    (found,) = ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]
    assert (found["GroupName"], found["Strategy"], found["State"]) == (NAME, "cluster", "available")
    with refused("InvalidPlacementGroup.Duplicate"):
        ec2.create_placement_group(GroupName=NAME, Strategy="cluster")


@pytest.mark.usefixtures("group")
def test_a_group_with_vms_stays_and_its_vms_are_found_by_its_name(run: Run, ec2: Any, clock: ManualClock) -> None:
    (vm,) = run()
    assert vm["Placement"]["GroupName"] == NAME
    wanted = [{"Name": "placement-group-name", "Values": [NAME]}]
    (reservation,) = ec2.describe_instances(Filters=wanted)["Reservations"]
    assert reservation["Instances"][0]["InstanceId"] == vm["InstanceId"]
    with refused("InvalidPlacementGroup.InUse"):
        ec2.delete_placement_group(GroupName=NAME)
    ec2.terminate_instances(InstanceIds=[vm["InstanceId"]])
    clock.forward(3600)
    ec2.delete_placement_group(GroupName=NAME)
    with refused("InvalidPlacementGroup.Unknown"):
        ec2.delete_placement_group(GroupName=NAME)


@pytest.mark.usefixtures("group")
def test_a_group_is_in_one_zone(run: Run) -> None:
    run()
    with refused("InvalidPlacementGroup.InUse"):
        run(zone="us-east-1b")


def test_an_unknown_group_takes_no_vm(run: Run) -> None:
    with refused("InvalidPlacementGroup.Unknown"):
        run()


@pytest.mark.usefixtures("group")
def test_a_group_takes_as_many_vms_as_are_close_together(run: Run, sim: Control) -> None:
    sim.settings(placement_group_capacity=3)
    run(2)
    assert len(run(4)) == 1
    with refused("InsufficientInstanceCapacity"):
        run()


def cards(*numbers: int, **first: Any) -> list[dict[str, Any]]:
    other = {"DeviceIndex": 1, "InterfaceType": "efa-only"}
    return [{"DeviceIndex": 0, "InterfaceType": "efa", **first}, *({**other, "NetworkCardIndex": n} for n in numbers)]


@pytest.mark.usefixtures("group")
def test_several_cards_have_one_address_and_none_is_public(run: Run) -> None:
    (vm,) = run(InstanceType="p4d.24xlarge", NetworkInterfaces=cards(1, 2, 3))
    assert [one["InterfaceType"] for one in vm["NetworkInterfaces"]] == ["efa", "efa-only", "efa-only", "efa-only"]
    assert "PublicIpAddress" not in vm
    with refused("InvalidParameterCombination"):
        run(InstanceType="p4d.24xlarge", NetworkInterfaces=cards(1, AssociatePublicIpAddress=True))


@pytest.mark.usefixtures("group")
def test_a_type_without_efa_takes_no_such_interface(run: Run) -> None:
    with refused("InvalidParameterCombination"):
        run(NetworkInterfaces=cards())
