"""Disks that outlive VMs: creation, reads, attachment and deletion."""

import uuid
from collections.abc import Mapping, Sequence

from app.domain import tags
from app.domain.tokens import disk_name, volume_token
from workers.providers.common.batch import ask_each, chunks, leave_out
from workers.providers.common.regions import Regions
from workers.providers.common.volumes import device_name, is_attached
from workers.providers.errors import NotFound, OutcomeUnknown, TokenConflict
from workers.providers.gcp import operations, resource_tags
from workers.providers.gcp.calls import NAMES_PER_CALL, either, scoped
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import creating
from workers.providers.gcp.ids import Id, last, region_of
from workers.providers.gcp.sdk import (
    AttachedDisk,
    CustomerEncryptionKey,
    Disk,
    DisksClient,
    InstancesClient,
)
from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import CloudVolume, DiskSpec, DiskState, VolumeListing, VolumeSpec

_STATES: Mapping[str, DiskState] = {
    "CREATING": DiskState.CREATING,
    "RESTORING": DiskState.CREATING,
    "READY": DiskState.READY,
    "DELETING": DiskState.DELETING,
    "FAILED": DiskState.FAILED,
}
_REQUESTS = uuid.UUID("9a2f5d7e-3c41-4b8e-9d64-0f6f1d2b7a55")
"""The namespace of the request ids, from which nothing else is derived."""


class GcpVolumes:
    """The port `Volumes` of the adapter."""

    _account: GcpAccount
    _clients: GcpClients

    def create_volume(self, region: str, new: DiskSpec) -> CloudVolume:
        """Calls disks.insert with a name and a request id of the volume's id, then reads the disk.

        A repeat gets the same operation, with the error that has ended it meanwhile.
        """
        name = disk_name(new.volume_id)
        try:
            with creating():
                operation = self._clients.ask(
                    self._clients.of(DisksClient).insert_unary,
                    zone=new.zone,
                    disk_resource=self._disk(region, name, new),
                    request_id=str(uuid.uuid5(_REQUESTS, volume_token(new.installation, new.volume_id))),
                )
            operations.accepted(operation)
        except TokenConflict as conflict:
            existing = self._named(new.zone, name)
            if existing is None or existing.tags.get(tags.VOLUME) != resource_tags.exact(new.volume_id):
                raise conflict from None
            return existing
        created = self._named(new.zone, name)
        if created is None:
            raise OutcomeUnknown(f"{name} is accepted and not shown yet", code="notFound")
        return created

    def _disk(self, region: str, name: str, new: DiskSpec) -> Disk:
        key = self._account.kms_keys.get(region)
        encryption = {"disk_encryption_key": CustomerEncryptionKey(kms_key_name=key)} if key is not None else {}
        return Disk(
            name=name,
            size_gb=new.size_gib,
            type_=f"projects/{self._clients.project}/zones/{new.zone}/diskTypes/{new.kind}",
            labels=resource_tags.of_volume(new, self._account),
            **encryption,
        )

    def _named(self, zone: str, name: str) -> CloudVolume | None:
        try:
            return _volume(self._clients.ask(self._clients.of(DisksClient).get, zone=zone, disk=name), zone)
        except NotFound:
            return None

    def get_volumes(self, region: str, volume_ids: Sequence[str]) -> Mapping[str, CloudVolume | None]:  # noqa: ARG002  ids name the zone
        """Lists of single zones, 50 names a call."""
        parsed = {volume_id: Id.parse(volume_id) for volume_id in volume_ids}
        known: dict[str, CloudVolume | None] = {volume_id: None for volume_id, disk in parsed.items() if disk is None}
        by_zone: dict[str, list[Id]] = {}
        for disk in parsed.values():
            if disk is not None:
                by_zone.setdefault(disk.zone, []).append(disk)
        answers, failed = ask_each(by_zone, lambda zone: self._in_zone(zone, by_zone[zone]))
        for seen in answers.values():
            known |= seen
        leave_out(known, failed)
        return known

    def _in_zone(self, zone: str, disks: Sequence[Id]) -> dict[str, CloudVolume | None]:
        seen: dict[str, CloudVolume | None] = {str(disk): None for disk in disks}
        for chunk in chunks([disk.name for disk in disks], NAMES_PER_CALL):
            named = either("name", chunk)
            for page in self._clients.pages(self._clients.of(DisksClient).list, zone=zone, filter=named):
                volumes = (_volume(disk, zone) for disk in page.items)
                seen |= {volume.id: volume for volume in volumes if volume.id in seen}
        return seen

    def list_volumes(self, regions: frozenset[str], installation: str) -> VolumeListing:
        """One list of all regions of the project. An unreachable zone fails its region."""
        volumes: list[CloudVolume] = []
        scan = Regions(regions)
        ours = resource_tags.having(tags.INSTALLATION, installation)
        for page in self._clients.pages(self._clients.of(DisksClient).aggregated_list, filter=ours):
            for region in scan.readable:
                with scan.reading(region):
                    zones, unreachable = scoped(page, region)
                    disks = [(disk, zone) for zone, content in zones for disk in content.disks]
                    volumes += [_volume(disk, zone) for disk, zone in disks if tags.VOLUME in disk.labels]
                    _require_all(unreachable)
        return VolumeListing(volumes=volumes, failed=dict(scan.failed))

    def attach_volume(self, region: str, vm_id: str, volume: VolumeSpec) -> bool:
        """Calls instances.attachDisk without autoDelete, under a device name by which the VM finds the disk."""
        vm, disk = Id.parse(vm_id), Id.parse(volume.cloud_id)
        if vm is None or disk is None:
            raise NotFound(f"{vm_id} or {volume.cloud_id} is no id of Compute Engine", code="notFound")
        volume_now = self.get_volumes(region, [volume.cloud_id])[volume.cloud_id]
        if is_attached(volume_now, volume.cloud_id, vm.name):
            return True
        source = f"projects/{self._clients.project}/zones/{disk.zone}/disks/{disk.name}"
        operations.accepted(
            self._clients.ask(
                self._clients.of(InstancesClient).attach_disk_unary,
                zone=vm.zone,
                instance=vm.number,
                attached_disk_resource=AttachedDisk(
                    source=source, device_name=device_name(volume), auto_delete=False, mode="READ_WRITE"
                ),
            )
        )
        return False

    def delete_volume(self, region: str, volume_id: str) -> None:
        """Calls disks.delete, only while the disk is the one with the number of the id."""
        disk = Id.parse(volume_id)
        if disk is None:
            return
        try:
            volume_now = self.get_volumes(region, [volume_id])[volume_id]
            if volume_now is None or volume_now.state is DiskState.DELETING:
                return
            is_attached(volume_now, volume_id, None)
            operations.accepted(
                self._clients.ask(self._clients.of(DisksClient).delete_unary, zone=disk.zone, disk=disk.name)
            )
        except NotFound:
            return


def _require_all(unreachable: frozenset[str]) -> None:
    if unreachable:
        raise OutcomeUnknown(f"unreachable: {', '.join(sorted(unreachable))}", code="UNREACHABLE")


def _volume(disk: Disk, zone: str) -> CloudVolume:
    return CloudVolume(
        id=str(Id(zone, disk.name, str(disk.id))),
        region=region_of(zone),
        zone=zone,
        size_gib=disk.size_gb,
        state=_STATES.get(disk.status, DiskState.UNKNOWN),
        tags=dict(disk.labels),
        attached_to=last(disk.users[0]) if disk.users else None,
    )
