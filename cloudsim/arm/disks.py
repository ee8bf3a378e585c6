"""From the storage profile of a PUT to disks for the world, checked the way Azure checks them."""

from __future__ import annotations

from cloudsim.arm import existing
from cloudsim.arm.call import TYPES, Call, Document
from cloudsim.arm.errors import ArmError
from cloudsim.world import DiskOrder, Resource, ResourceKind, Vm, World

_SKUS = frozenset({"Premium_LRS", "Premium_ZRS", "StandardSSD_LRS", "StandardSSD_ZRS", "Standard_LRS"})
_MOST_GIB = 32_767


def os_disk(call: Call, disk: Document, tags: dict[str, str]) -> DiskOrder:
    """The disk of the system. Compute gives a disk that it makes the tags of its VM."""
    if disk.get("createOption") != "FromImage":
        raise ArmError("InvalidParameter", "Only osDisk.createOption FromImage is simulated.")
    name = disk.get("name") or f"{call.name}_OsDisk_1_{call.world.hex(32)}"
    return _order(call, disk, name, tags, disk.get("diskSizeGB", 64))


def data_disks(call: Call, storage: Document, tags: dict[str, str]) -> tuple[DiskOrder, ...]:
    """Empty disks, each under a number of its own."""
    disks = storage.get("dataDisks") or []
    if len({disk.get("lun") for disk in disks}) < len(disks) or any("lun" not in disk for disk in disks):
        raise ArmError("InvalidParameter", "Each data disk needs a lun of its own.")
    return tuple(_data_disk(call, disk, tags) for disk in disks)


def _data_disk(call: Call, disk: Document, tags: dict[str, str]) -> DiskOrder:
    if disk.get("createOption") != "Empty":
        raise ArmError("InvalidParameter", "Only dataDisks.createOption Empty is simulated.")
    size = disk.get("diskSizeGB")
    if not isinstance(size, int) or not 1 <= size <= _MOST_GIB:
        raise ArmError("InvalidParameter", f"The value '{size}' of parameter 'dataDisk.diskSizeGB' is out of range.")
    name = disk.get("name") or f"{call.name}_DataDisk_{disk['lun']}_{call.world.hex(32)}"
    return _order(call, disk, name, tags, size)


def empty(properties: Document, sku: str) -> Document:
    """The spec of a disk that is made without a VM. Raises ArmError."""
    size, encryption = properties.get("diskSizeGB"), properties.get("encryption") or {}
    if not isinstance(size, int) or not 1 <= size <= _MOST_GIB:
        raise ArmError("InvalidParameter", f"The value '{size}' of parameter 'disk.diskSizeGB' is out of range.")
    encryption_set = encryption.get("diskEncryptionSetId")
    _check(sku, encryption_set)
    return {"size": size, "sku": sku, "lun": None, "encryption_set": encryption_set, "empty": True}


def _check(sku: str, encryption_set: str | None) -> None:
    if sku not in _SKUS:
        raise ArmError("InvalidParameter", f"The value '{sku}' of parameter 'storageAccountType' is invalid.")
    if encryption_set is not None and not existing.exists(encryption_set):
        raise ArmError("InvalidResourceReference", f"Resource {encryption_set} referenced was not found.")


def _order(call: Call, disk: Document, name: str, tags: dict[str, str], size: int) -> DiskOrder:
    managed = disk.get("managedDisk") or {}
    sku = managed.get("storageAccountType", "Standard_LRS")
    encryption_set = (managed.get("diskEncryptionSet") or {}).get("id")
    _check(sku, encryption_set)
    return DiskOrder(
        id=call.id_of(TYPES[ResourceKind.VOLUME], name),
        tags=tags,
        delete_with_vm=disk.get("deleteOption", "Detach") == "Delete",
        spec={"size": size, "sku": sku, "lun": disk.get("lun"), "encryption_set": encryption_set},
    )


def state_of_part(world: World, thing: Resource) -> str:
    """Of a disk, or of anything else, which takes no time."""
    if thing.kind is not ResourceKind.VOLUME or world.is_made(thing):
        return "Succeeded"
    return "Deleting" if "gone_from" in thing.spec else "Creating"


def attached(world: World, vm: Vm) -> list[Document]:
    """The data disks that were attached to a VM, as its storage profile shows them."""
    parts = (world.resources.get(resource_id) for resource_id in vm.resources)
    return [_profile(part) for part in parts if part is not None and part.vm_id == vm.id and part.spec.get("empty")]


def _profile(disk: Resource) -> Document:
    option = "Delete" if disk.delete_with_vm else "Detach"
    managed = {"id": disk.id, "storageAccountType": disk.spec["sku"]}
    return {"lun": disk.spec["lun"], "createOption": "Attach", "deleteOption": option, "managedDisk": managed}
