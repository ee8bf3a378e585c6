from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Launch
from tests.cloudsim.refusals import refused

SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "203.0.113.0/24"}]}


def test_every_zone_has_a_default_subnet_in_the_default_vpc(ec2: Any) -> None:
    (vpc,) = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    wanted = [{"Name": "vpc-id", "Values": [vpc["VpcId"]]}, {"Name": "default-for-az", "Values": ["true"]}]
    subnets = ec2.describe_subnets(Filters=wanted)["Subnets"]
    assert len({subnet["AvailabilityZone"] for subnet in subnets}) == 6
    assert len({subnet["CidrBlock"] for subnet in subnets}) == 6
    with refused("InvalidSubnetID.NotFound"):
        ec2.describe_subnets(SubnetIds=["subnet-1"])
    with refused("InvalidVpcID.NotFound"):
        ec2.describe_vpcs(VpcIds=["vpc-1"])


def test_a_group_lives_from_creation_to_deletion(ec2: Any, sim: Control) -> None:
    tags = [{"ResourceType": "security-group", "Tags": [{"Key": "a", "Value": "1"}]}]
    group = ec2.create_security_group(GroupName="ssh", Description="ssh", TagSpecifications=tags)["GroupId"]
    answer = ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[SSH])
    assert answer["SecurityGroupRules"][0]["CidrIpv4"] == "203.0.113.0/24"
    (seen,) = ec2.describe_security_groups(Filters=[{"Name": "tag:a", "Values": ["1"]}])["SecurityGroups"]
    assert seen["IpPermissions"][0]["IpRanges"] == SSH["IpRanges"]
    assert [item["kind"] for item in sim.resources()] == ["security_group"]
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[SSH])
    with refused("InvalidGroup.Duplicate"):
        ec2.create_security_group(GroupName="ssh", Description="again")
    ec2.delete_security_group(GroupId=group)
    with refused("InvalidGroup.NotFound"):
        ec2.describe_security_groups(GroupIds=[group])


def test_a_group_in_use_is_not_deleted(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    group = ec2.create_security_group(GroupName="ssh", Description="ssh")["GroupId"]
    vm = launch(SecurityGroupIds=[group])["InstanceId"]
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.terminate_instances(InstanceIds=[vm])
    clock.forward(1)
    ec2.delete_security_group(GroupId=group)


def test_the_default_group_is_always_there_and_lets_its_members_in(ec2: Any) -> None:
    (group,) = ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"]
    (rule,) = group["IpPermissions"]
    assert (rule["IpProtocol"], [pair["GroupId"] for pair in rule["UserIdGroupPairs"]]) == ("-1", [group["GroupId"]])
    assert rule["IpRanges"] == []


def test_an_interface_can_outlive_its_vm_and_be_deleted(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    vm = launch(NetworkInterfaces=[{"DeviceIndex": 0, "DeleteOnTermination": False}])
    (nic,) = vm["NetworkInterfaces"]
    with refused("InvalidParameterValue"):
        ec2.delete_network_interface(NetworkInterfaceId=nic["NetworkInterfaceId"])
    ec2.terminate_instances(InstanceIds=[vm["InstanceId"]])
    clock.forward(1)
    (left,) = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert left["Status"] == "available"
    ec2.delete_network_interface(NetworkInterfaceId=nic["NetworkInterfaceId"])
    with refused("InvalidNetworkInterfaceID.NotFound"):
        ec2.delete_network_interface(NetworkInterfaceId=nic["NetworkInterfaceId"])


def test_a_volume_in_use_is_not_deleted(ec2: Any, launch: Launch) -> None:
    volume = launch()["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    with refused("VolumeInUse"):
        ec2.delete_volume(VolumeId=volume)


def test_addresses_bill_until_released(ec2: Any, sim: Control) -> None:
    assert ec2.describe_addresses()["Addresses"] == []
    tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "1"}]}]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tags)["AllocationId"]
    (seen,) = ec2.describe_addresses(Filters=[{"Name": "tag:a", "Values": ["1"]}])["Addresses"]
    assert seen["AllocationId"] == address
    ec2.release_address(AllocationId=address)
    assert sim.resources() == []
    with refused("InvalidAllocationID.NotFound"):
        ec2.release_address(AllocationId=address)


class TestTags:
    def test_tags_set_later_are_found_and_taken_away_again(self, ec2: Any, launch: Launch) -> None:
        vm = launch()["InstanceId"]
        by_tag = {"Filters": [{"Name": "tag:deadline", "Values": ["1", "2"]}]}
        assert ec2.describe_instances(**by_tag)["Reservations"] == []
        for value in ("1", "2"):
            ec2.create_tags(Resources=[vm], Tags=[{"Key": "deadline", "Value": value}])
            (found,) = ec2.describe_instances(**by_tag)["Reservations"]
            assert found["Instances"][0]["Tags"] == [{"Key": "deadline", "Value": value}]
        ec2.delete_tags(Resources=[vm], Tags=[{"Key": "deadline", "Value": "other"}])
        assert ec2.describe_instances(**by_tag)["Reservations"]
        ec2.delete_tags(Resources=[vm], Tags=[{"Key": "deadline"}])
        assert ec2.describe_instances(**by_tag)["Reservations"] == []

    def test_everything_can_be_tagged_and_described(self, ec2: Any, launch: Launch) -> None:
        vm = launch(InstanceMarketOptions={"MarketType": "spot"})
        things = {
            vm["InstanceId"]: "instance",
            vm["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]: "volume",
            vm["NetworkInterfaces"][0]["NetworkInterfaceId"]: "network-interface",
            vm["SpotInstanceRequestId"]: "spot-instances-request",
            ec2.create_security_group(GroupName="g", Description="g")["GroupId"]: "security-group",
            ec2.allocate_address()["AllocationId"]: "elastic-ip",
        }
        ec2.create_tags(Resources=list(things), Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
        found = ec2.describe_tags(Filters=[{"Name": "key", "Values": ["a"]}])["Tags"]
        assert {tag["ResourceId"]: tag["ResourceType"] for tag in found} == things
        ec2.delete_tags(Resources=list(things))
        assert ec2.describe_tags()["Tags"] == []

    @pytest.mark.parametrize(
        ("resource", "code"), [("i-0123456789abcdef0", "InvalidInstanceID.NotFound"), ("thing-1", "InvalidID")]
    )
    def test_unknown_things_are_not_tagged(self, ec2: Any, resource: str, code: str) -> None:
        with refused(code):
            ec2.create_tags(Resources=[resource], Tags=[{"Key": "a", "Value": "1"}])

    def test_fifty_tags_are_enough(self, ec2: Any, launch: Launch) -> None:
        vm = launch()["InstanceId"]
        ec2.create_tags(Resources=[vm], Tags=[{"Key": f"k{n}", "Value": ""} for n in range(50)])
        with refused("TagLimitExceeded"):
            ec2.create_tags(Resources=[vm], Tags=[{"Key": "one-more", "Value": ""}])
