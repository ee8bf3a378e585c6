"""The disks of a VM: its OS disk, and the account's data disk. Both are deleted with the VM.

Compute gives a disk that it creates the tags of its VM. The PUT has no field for tags of a disk.
"""

from collections.abc import Iterator
from typing import Any

from workers.providers.azure import names
from workers.providers.azure.calls import Document, part
from workers.providers.azure.settings import AzureAccount
from workers.providers.types import LaunchSpec, VolumeSpec

_DATA_LUN = 0
_FIRST_VOLUME_LUN = _DATA_LUN + 1
KEPT = "Detach"
"""The delete option of a disk that outlives the VM."""


def plan(spec: LaunchSpec, account: AzureAccount, vm_name: str) -> dict[str, Any]:
    """`osDisk`, and `dataDisks` where the account has a data disk."""
    managed: dict[str, Any] = {"storageAccountType": account.disk_type}
    encryption_set = account.disk_encryption_set_ids.get(spec.region)
    if encryption_set is not None:
        managed["diskEncryptionSet"] = {"id": encryption_set}
    os_disk = {
        "name": names.os_disk(vm_name),
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "caching": "ReadWrite",
        "diskSizeGB": max(spec.disk_gib, spec.image.disk_gib),
        "managedDisk": managed,
    }
    if account.data_disk_gib is None:
        return {"osDisk": os_disk}
    data_disk = {
        "lun": _DATA_LUN,
        "name": names.data_disk(vm_name),
        "createOption": "Empty",
        "deleteOption": "Delete",
        "caching": "None",
        "diskSizeGB": account.data_disk_gib,
        "managedDisk": managed,
    }
    return {"osDisk": os_disk, "dataDisks": [data_disk]}


def volume_lun(volume: VolumeSpec) -> int:
    """The LUN of a volume in its VM."""
    return _FIRST_VOLUME_LUN + volume.index


def ids_of(vm: Document) -> Iterator[str]:
    """Resource ids of the disks that end with a VM; none before Azure has created them."""
    storage = part(vm, "properties", "storageProfile")
    for disk in (storage.get("osDisk") or {}, *(storage.get("dataDisks") or ())):
        disk_id = (disk.get("managedDisk") or {}).get("id")
        if disk_id and disk.get("deleteOption") != KEPT:
            yield disk_id
