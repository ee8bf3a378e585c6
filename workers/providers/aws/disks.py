"""The volumes of a VM: its root volume, and the account's data volume. Both are deleted with the VM."""

from typing import Any

from workers.providers.aws.settings import AwsAccount
from workers.providers.errors import InvalidSpec
from workers.providers.types import LaunchSpec

DATA_DEVICE = "/dev/sdf"
"""The first name that EC2 recommends for a data volume (EC2 user guide, "Device names for volumes")."""
_IOPS_PER_GIB = 500
"""The most IOPS of a gp3 volume for each GiB (EBS user guide, "General Purpose SSD volumes")."""
_INCLUDED_IOPS = 3_000


def plan(spec: LaunchSpec, account: AwsAccount) -> list[dict[str, Any]]:
    """Block device mappings. Raises InvalidSpec for an image whose root device is unknown."""
    if spec.image.root_device is None:
        msg = f"the root device of image {spec.image.id} is not known: use the image that image() returned"
        raise InvalidSpec(msg, code="InvalidBlockDeviceMapping")
    sizes = {spec.image.root_device: max(spec.disk_gib, spec.image.disk_gib)}
    if account.data_disk_gib is not None:
        sizes[DATA_DEVICE] = account.data_disk_gib
    return [
        {"DeviceName": device, "Ebs": {**settings(gib, account), "VolumeSize": gib, "DeleteOnTermination": True}}
        for device, gib in sizes.items()
    ]


def settings(gib: int, account: AwsAccount) -> dict[str, Any]:
    """What the account's settings say about every volume of this size."""
    volume: dict[str, Any] = {"VolumeType": "gp3", "Encrypted": True}
    if account.kms_key_id is not None:
        volume["KmsKeyId"] = account.kms_key_id
    if account.disk_iops is not None:
        volume["Iops"] = max(_INCLUDED_IOPS, min(account.disk_iops, gib * _IOPS_PER_GIB))
    if account.disk_throughput_mib is not None:
        volume["Throughput"] = account.disk_throughput_mib
    return volume
