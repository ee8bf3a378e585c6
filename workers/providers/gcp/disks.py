"""The disks of a VM: its boot disk, and the account's data disk. Both are deleted with the VM."""

from collections.abc import Mapping
from typing import Any

from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import LaunchSpec

DATA_DEVICE = "gpulease-data"
"""The VM finds the data disk as `/dev/disk/by-id/google-gpulease-data`."""
_DATA_SUFFIX = "-data"


def plan(
    spec: LaunchSpec, account: GcpAccount, *, vm_name: str, boot_disk: str, labels: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Attached disks, the boot disk first. `boot_disk`: the disk type that the machine type boots from."""
    common: dict[str, Any] = {"autoDelete": True}
    key = account.kms_keys.get(spec.region)
    if key is not None:
        common["diskEncryptionKey"] = {"kmsKeyName": key}
    made = {"diskType": f"zones/{spec.zone}/diskTypes/{account.disk_type or boot_disk}", "labels": dict(labels)}
    gib = max(spec.disk_gib, spec.image.disk_gib)
    boot = {"sourceImage": spec.image.id, "diskSizeGb": str(gib), **made}
    disks = [{"boot": True, **common, "initializeParams": boot}]
    if account.data_disk_gib is not None:
        data = {"diskName": vm_name + _DATA_SUFFIX, "diskSizeGb": str(account.data_disk_gib), **made}
        disks.append({"boot": False, **common, "deviceName": DATA_DEVICE, "initializeParams": data})
    return disks
