"""What each setting of an account changes in a launch, and what becomes of it at a simulated AWS."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain import tags
from app.domain.offerings import Market
from app.local.waiting import wait_until
from app.settings.reservations import ReservationSettings
from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2 import default_vpc
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.aws.test_launch import account, planned
from tests.workers.providers.samples import INSTALLATION, owner, spec
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.disks import DATA_DEVICE
from workers.providers.aws.launch import plan
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnets

REGION, ZONE = "us-east-1", "us-east-1a"
EVERYTHING = {
    "instance_profile": "gpulease-node",
    "kms_key_id": "alias/gpulease",
    "placement_group": "gpulease-cluster",
    "disk_iops": 16_000,
    "disk_throughput_mib": 1_000,
    "data_disk_gib": 500,
    "tags": {"cost-center": "4711"},
}


def volumes(**settings: Any) -> list[dict[str, Any]]:
    return [mapping["Ebs"] for mapping in planned(spec(), **settings)["BlockDeviceMappings"]]


@pytest.mark.parametrize(
    ("profile", "written"),
    [
        ("gpulease-node", {"Name": "gpulease-node"}),
        ("arn:aws:iam::123456789012:instance-profile/x/y", {"Arn": "arn:aws:iam::123456789012:instance-profile/x/y"}),
    ],
)
def test_an_instance_profile_is_given_by_name_or_arn(profile: str, written: dict[str, str]) -> None:
    assert planned(spec(), instance_profile=profile)["IamInstanceProfile"] == written


def test_a_placement_group_stands_beside_the_zone() -> None:
    placement = planned(spec(), placement_group="gpulease-cluster")["Placement"]
    assert placement == {"AvailabilityZone": ZONE, "GroupName": "gpulease-cluster"}


def test_a_launch_in_a_reservation_leaves_the_placement_group_out() -> None:
    place = {"region": REGION, "zone": ZONE, "instance_type": "g5.xlarge"}
    lab = ReservationSettings(name="lab", kind="capacity_reservation", id="cr-0000000000000000a", **place)
    grouped = account(placement_group="gpulease-cluster", reservations=(lab,))
    params = plan(spec(market=Market.RESERVED, reservation="lab"), grouped, subnet=None, reservation=lab)
    assert params["Placement"] == {"AvailabilityZone": ZONE}
    assert params["CapacityReservationSpecification"]["CapacityReservationTarget"] == {"CapacityReservationId": lab.id}


def test_the_key_encrypts_every_volume() -> None:
    assert [one["KmsKeyId"] for one in volumes(kms_key_id="alias/gpulease", data_disk_gib=100)] == [
        "alias/gpulease"
    ] * 2
    assert all(one["Encrypted"] for one in volumes(data_disk_gib=100))
    assert "KmsKeyId" not in volumes()[0]


def test_a_small_volume_gets_the_iops_that_its_size_allows() -> None:
    root, data = volumes(disk_iops=16_000, disk_throughput_mib=700, data_disk_gib=10)
    assert (root["Iops"], root["Throughput"]) == (16_000, 700)
    assert data["Iops"] == 5_000
    assert {"Iops", "Throughput"}.isdisjoint(volumes()[0])


def test_a_data_volume_is_empty_and_deleted_with_the_vm() -> None:
    _, data = planned(spec(), data_disk_gib=500)["BlockDeviceMappings"]
    assert data["DeviceName"] == DATA_DEVICE
    assert data["Ebs"]["VolumeSize"] == 500
    assert data["Ebs"]["DeleteOnTermination"] is True
    assert "SnapshotId" not in data["Ebs"]


def test_an_account_without_public_addresses_gives_none() -> None:
    (interface,) = planned(spec(public_ip=True), public_addresses=False)["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False


@pytest.fixture(scope="module")
def cloud() -> Iterator[Control]:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        yield sim


@pytest.fixture
def sim(cloud: Control) -> Control:
    cloud.reset()
    return cloud


def connect(sim: Control, **settings: Any) -> AwsProvider:
    account = AwsAccount(provider="aws", name="sim", regions=(REGION,), endpoint_url=sim.url, **settings)
    return AwsProvider(account, read_settings(call_timeout=60.0))


def launch(aws: AwsProvider, **changes: Any) -> Any:
    return aws.launch(REGION, aws.plan(spec(image=aws.image(REGION), **changes)))


def test_a_vm_with_everything_leaves_nothing(sim: Control) -> None:
    aws = connect(sim, **EVERYTHING)
    vm = launch(aws)
    held = aws.leftovers(REGION, INSTALLATION, None).resources
    assert sorted(one.kind for one in held) == ["network_interface", "volume", "volume"]
    assert all(one.tags["cost-center"] == "4711" and one.tags[tags.LEASE] == "lease_a" for one in held)
    later = owner().deadline_at + timedelta(hours=1)
    aws.set_deadline(REGION, [vm.id], later).require()
    held = aws.leftovers(REGION, INSTALLATION, None).resources
    assert {one.tags[tags.DEADLINE] for one in held} == {str(int(later.timestamp()))}
    aws.terminate(REGION, [vm.id]).require()
    assert wait_until(lambda: not aws.leftovers(REGION, INSTALLATION, None).resources, timeout=10)


def test_a_data_volume_that_stays_is_found_and_removed(sim: Control) -> None:
    aws = connect(sim, data_disk_gib=500)
    params = aws.plan(spec(image=aws.image(REGION)))
    params["BlockDeviceMappings"][1]["Ebs"]["DeleteOnTermination"] = False
    aws.terminate(REGION, [aws.launch(REGION, params).id]).require()
    assert wait_until(
        lambda: [one.in_use for one in aws.leftovers(REGION, INSTALLATION, None).resources] == [False], timeout=10
    )
    (volume,) = aws.leftovers(REGION, INSTALLATION, [owner().lease_id]).resources
    aws.remove_leftover(volume)
    assert not aws.leftovers(REGION, INSTALLATION, None).resources


@pytest.mark.parametrize(
    "settings",
    [
        {"instance_profile": "unknown"},
        {"instance_profile": "arn:aws:iam::123456789012:instance-profile/unknown"},
        {"placement_group": "unknown"},
    ],
)
def test_what_does_not_exist_is_a_bad_request(sim: Control, settings: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidSpec):
        launch(connect(sim, **settings))
    assert sim.instances() == []


def test_an_unknown_key_ends_the_vm_with_a_refusal(sim: Control) -> None:
    aws = connect(sim, kms_key_id="alias/unknown")
    vm = launch(aws)
    assert wait_until(lambda: aws.get(REGION, [vm.id])[vm.id].refusal is errors.InvalidSpec, timeout=10)  # pyrefly: ignore[missing-attribute]
    assert wait_until(lambda: not aws.leftovers(REGION, INSTALLATION, None).resources, timeout=10)


def subnet(kind: str) -> str:
    return default_vpc.subnet_id(DEFAULT_ACCOUNT, ZONE, kind)


def subnet_of(params: Any) -> str:
    return str(params["NetworkInterfaces"][0]["SubnetId"])


def test_of_several_subnets_in_a_zone_the_one_with_most_free_addresses_is_used(sim: Control) -> None:
    aws = connect(sim, subnet_ids=tuple(map(subnet, (default_vpc.FULL, default_vpc.DEFAULT, default_vpc.SECOND))))
    vm = launch(aws)
    assert subnet_of(aws.plan(spec())) == subnet(default_vpc.SECOND)
    assert vm.zone == ZONE


def test_after_a_refusal_for_lack_of_addresses_the_other_subnet_is_used(sim: Control) -> None:
    aws = connect(sim, subnet_ids=tuple(map(subnet, (default_vpc.DEFAULT, default_vpc.SECOND))))
    first = aws.plan(spec(image=aws.image(REGION)))
    sim.fault("RunInstances", "error", code="InsufficientFreeAddressesInSubnet", times=1)
    with pytest.raises(errors.NetworkFull):
        aws.launch(REGION, first)
    second = aws.plan(spec(owner(n=2), image=aws.image(REGION)))
    assert subnet_of(second) == subnet(default_vpc.DEFAULT)
    assert aws.launch(REGION, second).zone == ZONE


def test_a_zone_whose_subnets_are_all_full_has_no_capacity(sim: Control) -> None:
    aws = connect(sim, subnet_ids=(subnet(default_vpc.FULL),))
    with pytest.raises(errors.InsufficientCapacity) as caught:
        launch(aws)
    assert not isinstance(caught.value, errors.NetworkFull), "there is no other subnet to try"


def test_free_addresses_are_read_again_after_a_minute(sim: Control) -> None:
    now = [0.0]
    account = AwsAccount(provider="aws", name="sim", regions=(REGION,), endpoint_url=sim.url)
    listed = [subnet(default_vpc.DEFAULT), subnet(default_vpc.SECOND)]
    subnets = Subnets(listed, AwsClients(account, read_settings()).ec2, lambda: now[0])
    for seconds, used in ((0.0, default_vpc.DEFAULT), (59.0, default_vpc.DEFAULT), (61.0, default_vpc.SECOND)):
        now[0] = seconds
        subnets.refresh(REGION)
        if seconds == 0.0:
            subnets.set_full(REGION, subnet(default_vpc.SECOND))
        chosen = subnets.of_zone(REGION, ZONE)
        assert chosen is not None
        assert chosen.id == subnet(used)
    assert sim.calls()["DescribeSubnets"] == 2


def test_a_role_with_an_external_id_is_assumed_only_with_it(sim: Control) -> None:
    role = "arn:aws:iam::210987654321:role/gpulease-shared"
    assert connect(sim, role_arn=role, external_id="customer-7f3a").identity() == "210987654321"
    for wrong in ({}, {"external_id": "customer-other"}):
        with pytest.raises(errors.CredentialsRejected, match="AssumeRole"):
            connect(sim, role_arn=role, **wrong).identity()


def test_an_attempt_that_an_older_version_planned_is_sent_as_stored(sim: Control) -> None:
    """Settings that changed since do not change stored parameters."""
    old, new = connect(sim), connect(sim, **EVERYTHING)
    wanted = replace(spec(image=old.image(REGION)), allowed_cidrs=("203.0.113.0/24",))
    stored = old.plan(wanted)
    assert {"IamInstanceProfile"}.isdisjoint(stored)
    assert new.launch(REGION, stored).id == old.launch(REGION, stored).id
