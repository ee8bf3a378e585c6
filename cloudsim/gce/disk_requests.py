"""From the disks of instances.insert to disks for the world, checked the way Compute Engine checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudsim.gce import existing, links
from cloudsim.gce.call import Call
from cloudsim.gce.errors import GceError, invalid, not_found
from cloudsim.gce.images import Image, is_removed, named
from cloudsim.gce.labels import check as check_labels
from cloudsim.world import DiskOrder

LEAST_GIB, MOST_GIB = 10, 65_536
Body = Mapping[str, Any]


def read_disks(call: Call, vm_name: str) -> tuple[DiskOrder, ...]:
    """One boot disk from an image, and empty disks. Raises GceError as Google would refuse them."""
    disks = call.body.get("disks", [])
    if not disks or [bool(disk.get("boot")) for disk in disks] != [True] + [False] * (len(disks) - 1):
        raise invalid("resource.disks", "One boot disk, before all others, is simulated.")
    if any("initializeParams" not in disk for disk in disks):
        raise invalid("resource.disks", "Only disks that are made with their VM are simulated.")
    return tuple(_disk(call, disk, index, vm_name) for index, disk in enumerate(disks))


def _disk(call: Call, disk: Body, index: int, vm_name: str) -> DiskOrder:
    parameters: Body = disk["initializeParams"]
    image = _image(call, parameters.get("sourceImage", "")) if disk.get("boot") else None
    least = image.disk_gib if image is not None else LEAST_GIB
    size = int(parameters.get("diskSizeGb", least))
    if not least <= size <= MOST_GIB:
        raise invalid(f"resource.disks[{index}].initializeParams.diskSizeGb", f"must be at least {least} GB.")
    kind = links.last(parameters.get("diskType", "pd-standard"))
    if kind not in existing.DISK_TYPES:
        raise invalid(f"resource.disks[{index}].initializeParams.diskType", f"The disk type '{kind}' does not exist.")
    key = disk.get("diskEncryptionKey", {}).get("kmsKeyName")
    check_key(key, call.region)
    return DiskOrder(
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        tags=check_labels(parameters.get("labels", {})),
        delete_with_vm=bool(disk.get("autoDelete")),
        spec={
            "name": parameters.get("diskName", vm_name if image is not None else f"{vm_name}-{index}"),
            "size": size,
            "type": kind,
            "image": image.link if image is not None else None,
            "boot": image is not None,
            "device": disk.get("deviceName", f"persistent-disk-{index}"),
            "key": key,
        },
    )


def check_key(key: str | None, region: str) -> None:
    """Raises GceError for an encryption key that does not exist there."""
    if key is not None and not existing.is_key(key, region):
        raise GceError(
            "kmsPermissionDenied",
            f"Cloud KMS error when using key {key}: Permission 'cloudkms.cryptoKeyVersions.useToEncrypt' denied on "
            "resource (or it may not exist).",
        )


def _image(call: Call, link: str) -> Image:
    path = link.partition("projects/")[2]
    if not path:
        raise invalid("resource.disks[0].initializeParams.sourceImage", f"'{link}'. The URL is malformed.")
    image = named(path)
    if image is None or is_removed(call.world, image):
        raise not_found(f"projects/{path}")
    return image
