"""EBS volumes that outlive VMs: creation, reads, attachment and deletion."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from app.domain import tags
from app.domain.tokens import volume_token
from workers.providers.aws import disks, resource_tags
from workers.providers.aws.calls import FILTER_VALUES, pages, part
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.errors import translated
from workers.providers.aws.settings import AwsAccount
from workers.providers.common.batch import ask_each, chunks, leave_out
from workers.providers.common.volumes import is_attached
from workers.providers.errors import NotFound
from workers.providers.types import CloudVolume, DiskSpec, DiskState, VolumeListing, VolumeSpec

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_STATES: Mapping[str, DiskState] = {
    "creating": DiskState.CREATING,
    "available": DiskState.READY,
    "in-use": DiskState.READY,
    "deleting": DiskState.DELETING,
    "deleted": DiskState.DELETING,
    "error": DiskState.FAILED,
}
_FIRST_DEVICE = "g"
"""EC2 recommends /dev/sd[f-p] for data volumes. The account's data volume is /dev/sdf."""


class Ec2Volumes:
    """The port `Volumes` of the adapter."""

    _account: AwsAccount
    _clients: AwsClients

    def create_volume(self, region: str, new: DiskSpec) -> CloudVolume:
        """Calls CreateVolume with a client token of the volume's id, which makes a repeat return the same volume."""
        tagged = resource_tags.to_list(resource_tags.of_volume(new, self._account))
        arguments: dict[str, Any] = {
            **disks.settings(new.size_gib, self._account),
            "VolumeType": new.kind,
            "AvailabilityZone": new.zone,
            "Size": new.size_gib,
            "ClientToken": volume_token(new.installation, new.volume_id),
            "TagSpecifications": [{"ResourceType": "volume", "Tags": tagged}],
        }
        with translated():
            return _volume(self._clients.ec2(region).create_volume(**arguments), region)

    def get_volumes(self, region: str, volume_ids: Sequence[str]) -> Mapping[str, CloudVolume | None]:
        """By a filter, which does not fail for an unknown id; 200 ids a call."""
        ec2 = self._clients.ec2(region)
        portions = {chunk[0]: chunk for chunk in chunks(volume_ids, FILTER_VALUES)}
        answers, failed = ask_each(
            portions, lambda first: _described(ec2, region, [{"Name": "volume-id", "Values": portions[first]}])
        )
        leave_out(answers, failed)
        known: dict[str, CloudVolume | None] = {}
        for first, volumes in answers.items():
            known |= dict.fromkeys(portions[first]) | {volume.id: volume for volume in volumes}
        return known

    def list_volumes(self, regions: frozenset[str], installation: str) -> VolumeListing:
        """Region by region."""
        ours = [
            resource_tags.tagged(tags.INSTALLATION, installation),
            {"Name": "tag-key", "Values": [tags.VOLUME]},
        ]
        answers, failed = ask_each(sorted(regions), lambda region: _described(self._clients.ec2(region), region, ours))
        leave_out(answers, failed)
        return VolumeListing(volumes=[volume for listed in answers.values() for volume in listed], failed=failed)

    def attach_volume(self, region: str, vm_id: str, volume: VolumeSpec) -> bool:
        """Reads the volume first: EC2 refuses in the same way whichever VM has the volume.

        EC2 does not delete a volume that was attached so at the end of its VM.
        """
        disk = self.get_volumes(region, [volume.cloud_id])[volume.cloud_id]
        if is_attached(disk, volume.cloud_id, vm_id):
            return True
        device = f"/dev/sd{chr(ord(_FIRST_DEVICE) + volume.index)}"
        with translated():
            self._clients.ec2(region).attach_volume(VolumeId=volume.cloud_id, InstanceId=vm_id, Device=device)
        return False

    def delete_volume(self, region: str, volume_id: str) -> None:
        """Reads the volume first, as `attach_volume` does."""
        try:
            disk = self.get_volumes(region, [volume_id])[volume_id]
            if disk is None or disk.state is DiskState.DELETING:
                return
            is_attached(disk, volume_id, None)
            with translated():
                self._clients.ec2(region).delete_volume(VolumeId=volume_id)
        except NotFound:
            return


def _described(ec2: "EC2Client", region: str, filters: list[Any]) -> list[CloudVolume]:
    records = [record for page in pages(ec2, "describe_volumes", Filters=filters) for record in part(page, "Volumes")]
    with translated():
        return [_volume(record, region) for record in records]


def _volume(record: Any, region: str) -> CloudVolume:
    """Raises KeyError for a record without id or state."""
    attachments = [attachment for attachment in record.get("Attachments", ()) if attachment.get("State") != "detached"]
    return CloudVolume(
        id=record["VolumeId"],
        region=region,
        zone=record["AvailabilityZone"],
        size_gib=record["Size"],
        state=_STATES.get(record["State"], DiskState.UNKNOWN),
        tags=resource_tags.to_dict(cast("Any", record.get("Tags"))),
        attached_to=attachments[0].get("InstanceId") if attachments else None,
    )
