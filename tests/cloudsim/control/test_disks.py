"""`/_sim/disks` and `/_sim/files`: the history of disks that outlive VMs, and the files on them."""

from typing import Any

import httpx
import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Launch
from tests.workers.providers.samples import spec
from workers.providers.aws.userdata import packed, unpacked
from workers.providers.types import VolumeSpec

ZONE = "us-east-1a"
PATH = "/data/checkpoint"


@pytest.fixture
def volume(ec2: Any) -> str:
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "1"}]}]
    made = ec2.create_volume(AvailabilityZone=ZONE, Size=10, VolumeType="gp3", TagSpecifications=tags)
    return str(made["VolumeId"])


def disks(sim: Control) -> list[dict[str, Any]]:
    return list(sim.call("GET", "disks")["items"])


def running_with(ec2: Any, launch: Launch, clock: ManualClock, volume: str) -> str:
    """A VM in the volume's zone that mounts it."""
    mounts = (VolumeSpec(cloud_id=volume, path="/data", index=0),)
    vm = launch(UserData=unpacked(packed(spec(volumes=mounts))), Placement={"AvailabilityZone": ZONE})["InstanceId"]
    clock.forward(2)
    ec2.attach_volume(VolumeId=volume, InstanceId=vm, Device="/dev/sdg")
    return str(vm)


def written(sim: Control, vm: str, text: str) -> bool:
    body = {"provider": "aws", "instance_id": vm, "path": PATH, "text": text}
    return bool(sim.call("PUT", "files", body)["written"])


def text_at(sim: Control, vm: str) -> Any:
    return sim.call("GET", "files", params={"provider": "aws", "instance_id": vm, "path": PATH})["text"]


def test_a_disk_remembers_its_vms_and_its_end_and_the_next_vm_reads_its_files(
    sim: Control, ec2: Any, launch: Launch, clock: ManualClock, volume: str
) -> None:
    first = running_with(ec2, launch, clock, volume)
    assert written(sim, first, "epoch 7")
    sim.stop(first)
    clock.forward(2)
    with pytest.raises(httpx.HTTPStatusError, match="nothing runs in it"):
        text_at(sim, first)
    second = running_with(ec2, launch, clock, volume)
    assert text_at(sim, second) == "epoch 7"
    (disk,) = disks(sim)
    assert (disk["id"], disk["instance_id"], disk["tags"]) == (volume, second, {"a": "1"})
    assert [one["id"] for one in disk["vms"]] == [first, second]
    assert disk["vms"][0]["at"] < disk["vms"][1]["at"]
    with pytest.raises(httpx.HTTPStatusError, match="is attached to"):
        sim.call("POST", "disks/delete", {"provider": "aws", "id": volume})

    sim.stop(second)
    clock.forward(2)
    sim.call("POST", "disks/delete", {"provider": "aws", "id": volume})
    (disk,) = disks(sim)
    assert disk["deleted_at"] is not None
    assert disk["deleted_with"] is None
    with pytest.raises(httpx.HTTPStatusError, match="has no disk"):
        sim.call("POST", "disks/delete", {"provider": "aws", "id": volume})


def test_a_disk_that_goes_with_its_vm_names_the_vm(
    sim: Control, ec2: Any, launch: Launch, clock: ManualClock, volume: str
) -> None:
    vm = running_with(ec2, launch, clock, volume)
    assert sim.world is not None
    sim.world.resources[volume].delete_with_vm = True
    sim.stop(vm)
    clock.forward(2)
    assert disks(sim)[0]["deleted_with"] == vm


def test_disks_of_vms_are_not_among_them_and_deleted_ones_are_forgotten_in_the_end(
    sim: Control, ec2: Any, launch: Launch, clock: ManualClock, volume: str
) -> None:
    launch()
    assert [disk["id"] for disk in disks(sim)] == [volume]
    ec2.delete_volume(VolumeId=volume)
    clock.forward(86_401)
    other = ec2.create_volume(AvailabilityZone=ZONE, Size=10, VolumeType="gp3")["VolumeId"]
    assert [disk["id"] for disk in disks(sim)] == [other]


def test_a_deleted_disk_is_gone_after_a_while_where_that_takes_time(
    sim: Control, ec2: Any, clock: ManualClock, volume: str
) -> None:
    sim.settings(volume_seconds=3.0)
    clock.forward(4)
    for _ in range(2):
        ec2.delete_volume(VolumeId=volume)
        (shown,) = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
        assert shown["State"] == "deleting"
        clock.forward(1)
    assert disks(sim)[0]["deleted_at"] is None
    clock.forward(2)
    assert disks(sim)[0]["deleted_at"] is not None
    assert ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": [volume]}])["Volumes"] == []
