"""Driver-ready images and the SSM parameters that name the newest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from cloudsim.ec2.catalog import PROVIDER
from cloudsim.world import World

ROOT_DEVICE = "/dev/sda1"
ROOT_GIB = 75
OWNER = "898082745236"
OWNER_ALIAS = "amazon"
_RELEASES = ("20260918", "20261016", "20261113")
_UBUNTU = ("22.04", "24.04")


@dataclass(frozen=True, slots=True)
class Image:
    """One AMI in one region."""

    id: str
    region: str
    name: str
    ubuntu: str
    created: str
    snapshot_id: str


def _stable_hex(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:17]


def _image(region: str, ubuntu: str, release: str) -> Image:
    name = f"Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu {ubuntu}) {release}"
    return Image(
        id="ami-" + _stable_hex("ami", region, name),
        region=region,
        name=name,
        ubuntu=ubuntu,
        created=f"{release[:4]}-{release[4:6]}-{release[6:]}T03:14:15.000Z",
        snapshot_id="snap-" + _stable_hex("snap", region, name),
    )


@cache
def images(region: str) -> dict[str, Image]:
    """AMIs of a region by id, oldest release first."""
    made = [_image(region, ubuntu, release) for release in _RELEASES for ubuntu in _UBUNTU]
    return {image.id: image for image in made}


def available(world: World, region: str) -> dict[str, Image]:
    """AMIs of a region that were not removed."""
    removed = world.restrictions.is_removed
    return {image.id: image for image in images(region).values() if not removed(PROVIDER, image.id, image.name)}


def available_parameters(world: World, region: str) -> dict[str, str]:
    """SSM public parameters of a region that were not removed: name to AMI id."""
    removed = world.restrictions.is_removed
    return {name: image for name, image in parameters(region).items() if not removed(PROVIDER, name)}


@cache
def parameters(region: str) -> dict[str, str]:
    """SSM public parameters of a region: name to AMI id."""
    newest = {image.ubuntu: image.id for image in images(region).values()}
    prefix = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-"
    return {f"{prefix}{ubuntu}/latest/ami-id": image_id for ubuntu, image_id in newest.items()}


def newest(region: str) -> str:
    """An AMI id for VMs that nobody chose an image for."""
    return list(images(region))[-1]
