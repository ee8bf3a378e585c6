"""From block device mappings of RunInstances to disks for the world, checked the way EC2 checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudsim.ec2 import existing
from cloudsim.ec2.call import Call
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.images import ROOT_DEVICE, ROOT_GIB, Image
from cloudsim.ec2.views import DISABLED_KEY, MISSING_KEY, VOLUME_LIMIT
from cloudsim.world import DiskOrder, Order, ResourceKind

INCLUDED_IOPS, _MOST_IOPS, _IOPS_PER_GIB, _IOPS_PER_MIB = 3_000, 80_000, 500, 4
LEAST_MIB, _MOST_MIB = 125, 2_000


def read_disks(call: Call, image: Image, tags: Mapping[str, str]) -> tuple[DiskOrder, ...]:
    """The root volume and all others. Raises AwsError as EC2 would refuse them."""
    by_device: dict[str, dict[str, Any]] = {ROOT_DEVICE: {}}
    for mapping in call.params.get("BlockDeviceMappings", []):
        by_device[mapping.get("DeviceName", ROOT_DEVICE)] = mapping.get("Ebs", {})
    return tuple(_disk(call, image, device, ebs, tags) for device, ebs in by_device.items())


def late_refusal(call: Call, orders: Sequence[Order]) -> str | None:
    """The end code of VMs whose volumes cannot be made, or None. EC2 finds that out after it has accepted the launch."""
    keys = [disk.spec["key"] for disk in orders[0].disks if disk.spec["key"] is not None]
    if not all(map(existing.is_key, keys)):
        return MISSING_KEY
    if any(map(existing.is_disabled_key, keys)):
        return DISABLED_KEY
    most = call.world.settings.volume_gib
    sizes = [int(volume.spec["size"]) for volume in call.resources(ResourceKind.VOLUME)]
    sizes += [int(disk.spec["size"]) for order in orders for disk in order.disks]
    return VOLUME_LIMIT if most is not None and sum(sizes) > most else None


def _disk(call: Call, image: Image, device: str, ebs: Mapping[str, Any], tags: Mapping[str, str]) -> DiskOrder:
    root = device == ROOT_DEVICE
    size = ebs.get("VolumeSize", ROOT_GIB if root else None)
    if size is None:
        raise AwsError("MissingParameter", f"The request must contain the size of the volume for {device}")
    if root and size < ROOT_GIB:
        raise AwsError(
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot '{image.snapshot_id}', expect size >= {ROOT_GIB}GB",
        )
    check_performance(size, ebs)
    if ebs.get("KmsKeyId") and not ebs.get("Encrypted"):
        raise AwsError(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    return DiskOrder(
        id=f"vol-{call.world.hex(17)}",
        tags=tags,
        delete_with_vm=ebs.get("DeleteOnTermination", True),
        spec={
            "device": device,
            "size": size,
            "type": ebs.get("VolumeType", "gp3"),
            "iops": ebs.get("Iops", INCLUDED_IOPS),
            "throughput": ebs.get("Throughput", LEAST_MIB),
            "encrypted": ebs.get("Encrypted", False),
            "key": ebs.get("KmsKeyId"),
            "snapshot": image.snapshot_id if root else "",
        },
    )


def check_performance(size: int, ebs: Mapping[str, Any]) -> None:
    """Of gp3 volumes."""
    iops, mib = ebs.get("Iops", INCLUDED_IOPS), ebs.get("Throughput", LEAST_MIB)
    if not INCLUDED_IOPS <= iops <= _MOST_IOPS:
        raise bad_value(iops, "iops", f"Volume iops must be between {INCLUDED_IOPS} and {_MOST_IOPS}.")
    if not LEAST_MIB <= mib <= _MOST_MIB:
        raise bad_value(mib, "throughput", f"Volume throughput must be between {LEAST_MIB} and {_MOST_MIB}.")
    if iops > max(INCLUDED_IOPS, size * _IOPS_PER_GIB):
        raise AwsError(
            "InvalidParameterCombination", f"Iops to volume size ratio is too high; maximum is {_IOPS_PER_GIB}"
        )
    if mib * _IOPS_PER_MIB > iops:
        raise AwsError("InvalidParameterCombination", "Throughput to iops ratio is too high; maximum is 0.25 per iops")
