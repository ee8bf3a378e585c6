"""Managed disks that outlive VMs: creation, reads, attachment and deletion.

An id is `NAME:UNIQUEID`, as a VM's id is: the name addresses the disk, and Azure's unique id identifies it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain import tags
from app.domain.tokens import disk_name
from workers.providers.azure import disks, instances, listings, names, places, resource_tags
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import creating, translated
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.batch import answered
from workers.providers.common.volumes import is_attached
from workers.providers.errors import NotFound, OutcomeUnknown, TokenConflict
from workers.providers.types import CloudVolume, DiskSpec, DiskState, VolumeListing, VolumeSpec

_STATES: Mapping[str, DiskState] = {
    "creating": DiskState.CREATING,
    "succeeded": DiskState.READY,
    "updating": DiskState.READY,
    "deleting": DiskState.DELETING,
    "failed": DiskState.FAILED,
}


class AzureVolumes:
    """The port `Volumes` of the adapter."""

    _account: AzureAccount
    _group: Group

    def create_volume(self, region: str, new: DiskSpec) -> CloudVolume:
        """Sends one PUT for a disk of a name of the volume's id, unless Azure shows that disk."""
        name, group = disk_name(new.volume_id), self._group
        existing = known(group.compute.disks.get, group.name, name)
        if existing is not None:
            volume = _volume(existing)
            if volume.tags.get(tags.VOLUME) != new.volume_id:
                raise TokenConflict(f"another disk has the name {name}", code="Conflict")
            return volume
        with creating(group.name):
            group.compute.disks.begin_create_or_update(group.name, name, self._body(region, new), polling=False)
        created = known(group.compute.disks.get, group.name, name)
        if created is None:
            raise OutcomeUnknown(f"{name} is accepted and not shown yet", code="ResourceNotFound")
        return _volume(created)

    def _body(self, region: str, new: DiskSpec) -> Any:
        encryption_set = self._account.disk_encryption_set_ids.get(region)
        encryption = {"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": encryption_set}
        return {
            "location": region,
            **places.zones(region, new.zone),
            "sku": {"name": new.kind},
            "tags": resource_tags.of_volume(new, self._account),
            "properties": {
                "creationData": {"createOption": "Empty"},
                "diskSizeGB": new.size_gib,
                "networkAccessPolicy": "DenyAll",
                "publicNetworkAccess": "Disabled",
                **({"encryption": encryption} if encryption_set is not None else {}),
            },
        }

    def get_volumes(self, region: str, volume_ids: Sequence[str]) -> Mapping[str, CloudVolume | None]:  # noqa: ARG002  calls address disks by name
        """One call for each disk."""
        return answered(volume_ids, self._get)

    def _get(self, volume_id: str) -> CloudVolume | None:
        try:
            name = names.split(volume_id)[0]
        except NotFound:
            return None
        document = known(self._group.compute.disks.get, self._group.name, name)
        volume = _volume(document) if document is not None else None
        return volume if volume is not None and volume.id == volume_id else None

    def list_volumes(self, regions: frozenset[str], installation: str) -> VolumeListing:
        """One listing of all regions of the resource group."""
        documents = listings.items(self._group, listings.DISKS)
        ours = (document for document in documents if tags.VOLUME in (document.get("tags") or {}))
        volumes = [_volume(document) for document in ours]
        return VolumeListing(
            volumes=[
                volume
                for volume in volumes
                if volume.region in regions and volume.tags.get(tags.INSTALLATION) == installation
            ]
        )

    def attach_volume(self, region: str, vm_id: str, volume: VolumeSpec) -> bool:  # noqa: ARG002  as above
        """Calls attachDetachDataDisks, which changes nothing else of the VM. The VM finds the disk by its LUN."""
        group = self._group
        disk = self._get(volume.cloud_id)
        if is_attached(disk, volume.cloud_id, names.split(vm_id)[0]):
            return True
        name = part(instances.require(group, vm_id), "name")
        disk = {
            "diskId": f"{group.id}/providers/Microsoft.Compute/disks/{names.split(volume.cloud_id)[0]}",
            "lun": disks.volume_lun(volume),
            "caching": "None",
            "deleteOption": disks.KEPT,
        }
        body: Any = {"dataDisksToAttach": [disk]}
        with translated():
            group.compute.virtual_machines.begin_attach_detach_data_disks(group.name, name, body, polling=False)
        return False

    def delete_volume(self, region: str, volume_id: str) -> None:  # noqa: ARG002  as above
        """Requests deletion by name, only while the disk is the one with the unique id."""
        disk = self._get(volume_id)
        if disk is None or disk.state is DiskState.DELETING:
            return
        is_attached(disk, volume_id, None)
        try:
            with translated():
                self._group.compute.disks.begin_delete(self._group.name, names.split(volume_id)[0], polling=False)
        except NotFound:
            return


def _volume(document: Document) -> CloudVolume:
    properties, holder = part(document, "properties"), document.get("managedBy")
    region = str(part(document, "location")).lower()
    return CloudVolume(
        id=names.join(part(document, "name"), part(properties, "uniqueId")),
        region=region,
        zone=places.zone(region, document.get("zones")),
        size_gib=properties.get("diskSizeGB") or 0,
        state=_STATES.get(str(properties.get("provisioningState", "")).lower(), DiskState.UNKNOWN),
        tags=resource_tags.read(document.get("tags")),
        attached_to=names.last(holder) if holder else None,
    )
