"""Files on volumes: they are where the user data mount the attached disk, and they stay when the VM ends."""

import random
from typing import Any

import pytest

from cloudsim.settings import Settings
from cloudsim.ssh.mounts import Mounts
from cloudsim.world import Resource, ResourceKind, World
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.ssh.test_guest import kept, vm
from tests.workers.providers.samples import spec
from workers.providers.types import VolumeSpec

PATH = "/mnt/data"
DISKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "aws": ("vol-0123456789abcdef0", "vol-0123456789abcdef0", {"device": "/dev/sdg"}),
    "gcp": ("us-central1-a:gpulease-vol-1:77", "77", {"device": "gpulease-volume-0"}),
    "azure": ("gpulease-vol-1:00000000-0000-4000-8000-000000000001", "/x/disks/gpulease-vol-1", {"lun": 1}),
}
"""Of each cloud: the adapter's id of a volume, the world's id, and what its front keeps of the attachment."""


def disk(provider: str) -> Resource:
    return Resource(
        kind=ResourceKind.VOLUME,
        provider=provider,
        account="a",
        region="r",
        zone="z",
        id=DISKS[provider][1],
        tags={},
        created_at=0.0,
    )


def machine(provider: str, number: str, *mounts: VolumeSpec) -> Any:
    made = vm(provider, kept(provider, spec(volumes=mounts)))
    made.id, made.resources, made.revision = number, [], 0
    return made


@pytest.fixture
def world() -> World:
    return World([], Settings(), clock=ManualClock(), rng=random.Random(7))


@pytest.mark.parametrize("provider", DISKS)
def test_a_file_is_on_the_volume_and_not_in_the_vm(provider: str, world: World) -> None:
    mount = VolumeSpec(cloud_id=DISKS[provider][0], path=PATH, index=0)
    first, second = (machine(provider, number, mount) for number in "12")
    volume = disk(provider)
    world.add_resource(volume)
    assert not Mounts(world, first).write(f"{PATH}/a", "early"), "nothing is attached yet"

    world.attach(volume, first, DISKS[provider][2])
    assert Mounts(world, first).write(f"{PATH}/run/a", "epoch 7\n")
    assert Mounts(world, first).read(f"{PATH}/run/a") == "epoch 7\n"
    assert Mounts(world, first).read(f"{PATH}/b") is None
    assert not Mounts(world, first).write("/mnt/other/a", "x")
    assert Mounts(world, second).read(f"{PATH}/run/a") is None

    volume.vm_id = None
    world.attach(volume, second, DISKS[provider][2])
    assert Mounts(world, second).read(f"{PATH}/run/a") == "epoch 7\n"
    assert Mounts(world, first).read(f"{PATH}/run/a") is None


def test_a_volume_that_the_user_data_do_not_mount_holds_no_file(world: World) -> None:
    volume, bare = disk("aws"), machine("aws", "1")
    world.add_resource(volume)
    world.attach(volume, bare, {"device": "/dev/sdg"})
    assert not Mounts(world, bare).write(f"{PATH}/a", "x")
