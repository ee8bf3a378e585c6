import base64
from typing import Any

import pytest

from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2 import default_vpc
from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Clients, Launch
from tests.cloudsim.refusals import refused

SPOT = {
    "MarketType": "spot",
    "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
}


FULL_SUBNET = default_vpc.subnet_id(DEFAULT_ACCOUNT, "us-east-1a", default_vpc.FULL)


def root(**volume: Any) -> dict[str, Any]:
    return {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 75, **volume}}]}


def tagged(kind: str, **tags: str) -> dict[str, Any]:
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def test_a_launch_answers_a_pending_instance_that_runs_after_a_quarter_of_the_boot(
    ec2: Any, launch: Launch, clock: ManualClock
) -> None:
    instance = launch()
    assert instance["State"]["Name"] == "pending"
    assert "PublicIpAddress" not in instance
    clock.forward(0.3)
    (seen,) = ec2.describe_instances(InstanceIds=[instance["InstanceId"]])["Reservations"][0]["Instances"]
    assert seen["State"] == {"Code": 16, "Name": "running"}
    assert seen["PublicIpAddress"]
    assert seen["PublicDnsName"].startswith("ec2-")


def test_everything_asked_for_shows_on_the_instance(ec2: Any, launch: Launch, sim: Control) -> None:
    group = ec2.create_security_group(GroupName="ssh", Description="ssh only")["GroupId"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1b"]}])["Subnets"][0]
    instance = launch(
        NetworkInterfaces=[
            {"DeviceIndex": 0, "SubnetId": subnet["SubnetId"], "Groups": [group], "AssociatePublicIpAddress": False}
        ],
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3"}}],
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "InstanceMetadataTags": "enabled"},
        InstanceInitiatedShutdownBehavior="terminate",
        UserData="#!/bin/bash\ntrue\n",
        ClientToken="token-1",
        TagSpecifications=[tagged("instance", Name="vm"), tagged("volume", a="1"), tagged("network-interface", b="2")],
    )
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1b"
    assert instance["SubnetId"] == subnet["SubnetId"]
    assert instance["SecurityGroups"] == [{"GroupId": group, "GroupName": "ssh"}]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["ClientToken"] == "token-1"
    assert instance["Tags"] == [{"Key": "Name", "Value": "vm"}]
    (volume,) = ec2.describe_volumes(Filters=[{"Name": "tag:a", "Values": ["1"]}])["Volumes"]
    assert (volume["Size"], volume["State"]) == (200, "in-use")
    (nic,) = ec2.describe_network_interfaces(Filters=[{"Name": "tag:b", "Values": ["2"]}])["NetworkInterfaces"]
    assert nic["Attachment"]["InstanceId"] == instance["InstanceId"]
    (truth,) = sim.instances()
    assert (truth["name"], truth["token"]) == ("vm", "token-1")


def test_the_same_token_and_parameters_answer_the_same_instance(launch: Launch, sim: Control) -> None:
    assert launch(ClientToken="t")["InstanceId"] == launch(ClientToken="t")["InstanceId"]
    assert len(sim.instances()) == 1


def test_the_same_token_with_other_parameters_is_a_mismatch(launch: Launch) -> None:
    launch(ClientToken="t")
    with refused("IdempotentParameterMismatch", 400):
        launch(ClientToken="t", InstanceType="g5.2xlarge")


def test_a_token_holds_within_its_zone_when_a_zone_is_given(launch: Launch, sim: Control) -> None:
    first = launch(ClientToken="t", Placement={"AvailabilityZone": "us-east-1a"})
    second = launch(ClientToken="t", Placement={"AvailabilityZone": "us-east-1b"})
    assert first["InstanceId"] != second["InstanceId"]
    assert len(sim.instances()) == 2


def test_a_token_outlives_its_instance(ec2: Any, launch: Launch, clock: ManualClock, sim: Control) -> None:
    first = launch(ClientToken="t")
    ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    clock.forward(300)
    again = launch(ClientToken="t")
    assert (again["InstanceId"], again["State"]["Name"]) == (first["InstanceId"], "terminated")
    sim.settings(relaunch_of_terminated="error")
    with refused("IdempotentInstanceTerminated"):
        launch(ClientToken="t")


def test_accounts_share_no_tokens(clients: Clients, launch: Launch) -> None:
    other = clients("ec2", key="AKIAEMPTY1")
    assert launch(ClientToken="t")["InstanceId"] != launch(other, ClientToken="t")["InstanceId"]


def test_no_capacity_is_a_server_error(launch: Launch, sim: Control) -> None:
    sim.capacity(0, instance_type="g5.xlarge")
    with refused("InsufficientInstanceCapacity", 500):
        launch()
    launch(InstanceType="g5.2xlarge")


def test_capacity_is_counted_per_zone_and_given_back(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    sim.capacity(1, zone="us-east-1a", instance_type="g5.xlarge", market="on_demand")
    here = {"Placement": {"AvailabilityZone": "us-east-1a"}}
    first = launch(**here)
    with refused("InsufficientInstanceCapacity"):
        launch(**here)
    assert launch()["Placement"]["AvailabilityZone"] == "us-east-1b"
    launch(InstanceMarketOptions=SPOT, **here)
    ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    clock.forward(1)
    launch(**here)


def test_a_failed_launch_uses_no_token(launch: Launch, sim: Control) -> None:
    sim.capacity(0)
    with refused("InsufficientInstanceCapacity"):
        launch(ClientToken="t")
    sim.capacity(None)
    launch(ClientToken="t", InstanceType="g5.2xlarge")


def test_a_type_that_the_zone_does_not_sell_is_unsupported(launch: Launch, sim: Control) -> None:
    with refused("Unsupported", 400):
        launch(Placement={"AvailabilityZone": "us-east-1e"})
    sim.offered("us-east-1e", "g5.xlarge", True)
    launch(Placement={"AvailabilityZone": "us-east-1e"})


def test_a_type_that_the_region_does_not_sell_is_unsupported(clients: Clients, sim: Control) -> None:
    client = clients("ec2", "eu-west-1")
    ami = client.describe_images()["Images"][0]["ImageId"]
    with refused("Unsupported"):
        client.run_instances(MinCount=1, MaxCount=1, ImageId=ami, InstanceType="p5.48xlarge")


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"InstanceType": "x9.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "image"}, "InvalidAMIID.Malformed"),
        ({"MaxCount": 0}, "InvalidParameterValue"),
        ({"Placement": {"AvailabilityZone": "us-east-1z"}}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-1"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-1"]}, "InvalidGroup.NotFound"),
        ({"SubnetId": "subnet-1", "NetworkInterfaces": [{"DeviceIndex": 0}]}, "InvalidParameterCombination"),
        ({"UserData": "x" * 16_385}, "InvalidParameterValue"),
        ({"KeyName": "mine"}, "InvalidKeyPair.NotFound"),
        ({"IamInstanceProfile": {"Name": "admin"}}, "InvalidParameterValue"),
        ({"Placement": {"GroupName": "unknown"}}, "InvalidPlacementGroup.Unknown"),
        (root(KmsKeyId="alias/gpulease"), "InvalidParameterDependency"),
        (root(Iops=50_000), "InvalidParameterCombination"),
        (root(Iops=100), "InvalidParameterValue"),
        (root(Throughput=1_000), "InvalidParameterCombination"),
        (root(Throughput=4_000), "InvalidParameterValue"),
        ({"SubnetId": FULL_SUBNET}, "InsufficientFreeAddressesInSubnet"),
        ({"ClientToken": "x" * 65}, "InvalidParameterValue"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}}]}, "InvalidBlockDeviceMapping"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Ebs": {}}]}, "MissingParameter"),
        ({"TagSpecifications": [tagged("spot-instances-request", a="1")]}, "InvalidParameterValue"),
        ({"TagSpecifications": [tagged("instance", **{"aws:x": "1"})]}, "InvalidParameterValue"),
        ({"TagSpecifications": [tagged("instance", a="x" * 257)]}, "InvalidParameterValue"),
        ({"TagSpecifications": [tagged("instance", **{f"k{n}": "" for n in range(51)})]}, "TagLimitExceeded"),
        (
            {
                "MetadataOptions": {"InstanceMetadataTags": "enabled"},
                "TagSpecifications": [tagged("instance", **{"a/b": "1"})],
            },
            "InvalidParameterValue",
        ),
        (
            {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.0001"}}},
            "SpotMaxPriceTooLow",
        ),
        ({"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "-1"}}}, "InvalidParameterValue"),
        (
            {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "persistent"}}},
            "InvalidParameterCombination",
        ),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_ec2_refuses_is_refused_and_launches_nothing(
    launch: Launch, sim: Control, parameters: dict[str, Any], code: str
) -> None:
    with refused(code):
        launch(**parameters)
    assert sim.instances() == []


def test_user_data_may_have_16_kib(launch: Launch) -> None:
    launch(UserData="x" * 16_384)


def test_quotas_count_vcpus_per_family_and_market(launch: Launch, sim: Control, ec2: Any, clock: ManualClock) -> None:
    sim.quota("L-DB2E81BA", 8, region="us-east-1")
    sim.quota("L-3819A6DF", 4)
    first = launch()
    launch()
    with refused("VcpuLimitExceeded", 400):
        launch()
    launch(InstanceMarketOptions=SPOT)
    with refused("MaxSpotInstanceCountExceeded", 400):
        launch(InstanceMarketOptions=SPOT)
    launch(InstanceType="p4d.24xlarge")
    ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    clock.forward(1)
    launch()


def test_a_boot_that_fails_ends_the_instance_with_the_reason(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    sim.fault("boot", "error", code="Server.InsufficientInstanceCapacity")
    instance = launch()
    clock.forward(0.5)
    (seen,) = ec2.describe_instances(InstanceIds=[instance["InstanceId"]])["Reservations"][0]["Instances"]
    assert seen["State"]["Name"] == "terminated"
    assert seen["StateReason"]["Code"] == "Server.InsufficientInstanceCapacity"


def test_a_boot_that_hangs_never_passes_its_checks(ec2: Any, launch: Launch, sim: Control, clock: ManualClock) -> None:
    sim.fault("boot", "hang")
    instance = launch()
    clock.forward(10_000)
    (status,) = ec2.describe_instance_status(InstanceIds=[instance["InstanceId"]])["InstanceStatuses"]
    assert status["InstanceStatus"]["Status"] == "initializing"


def test_the_console_shows_host_keys_once_the_vm_is_ready(ec2: Any, launch: Launch, clock: ManualClock) -> None:
    instance = launch()["InstanceId"]
    assert "Output" not in ec2.get_console_output(InstanceId=instance)
    clock.forward(1)
    (key,) = [
        line for line in ec2.get_console_output(InstanceId=instance)["Output"].splitlines() if line.startswith("ssh-")
    ]
    assert base64.b64decode(key.split()[1])[4:15] == b"ssh-ed25519"


def test_every_vm_may_have_the_address_of_an_ssh_server_on_this_machine(
    ec2: Any, launch: Launch, sim: Control, clock: ManualClock
) -> None:
    sim.call("PUT", "settings", {"vm_address": "127.0.0.1"})
    ids = [launch()["InstanceId"] for _ in range(2)]
    sim.call("PUT", "settings", {"vm_address": None})
    ids.append(launch()["InstanceId"])
    clock.forward(1)
    found = ec2.describe_instances(InstanceIds=ids)["Reservations"]
    addresses = {one["InstanceId"]: one["PublicIpAddress"] for vm in found for one in vm["Instances"]}
    assert [addresses[one] for one in ids[:2]] == ["127.0.0.1"] * 2
    assert addresses[ids[2]].startswith("198.18.")


KEY_MISSING = ("Server.InternalError", "Client.InternalError: Client error on launch")
KEY_DISABLED = (
    "Client.InvalidKMSKey.InvalidState",
    "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state",
)


@pytest.mark.parametrize(("key", "reason"), [("alias/nobody", KEY_MISSING), ("alias/disabled", KEY_DISABLED)])
def test_a_key_that_cannot_be_used_ends_the_instance(
    ec2: Any, launch: Launch, clock: ManualClock, key: str, reason: tuple[str, str]
) -> None:
    ebs = {"Encrypted": True, "KmsKeyId": key}
    assert ended(ec2, launch(BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": ebs}]), clock) == reason


def test_volumes_beyond_the_limit_end_the_instance(ec2: Any, launch: Launch, sim: Control, clock: ManualClock) -> None:
    sim.settings(volume_gib=10)
    assert ended(ec2, launch(), clock)[0] == "Client.VolumeLimitExceeded"


def ended(ec2: Any, instance: Any, clock: ManualClock) -> tuple[str, str]:
    """The state reason of an instance that has terminated."""
    clock.forward(1)
    (seen,) = ec2.describe_instances(InstanceIds=[instance["InstanceId"]])["Reservations"][0]["Instances"]
    assert seen["State"]["Name"] == "terminated"
    return seen["StateReason"]["Code"], seen["StateReason"]["Message"]
