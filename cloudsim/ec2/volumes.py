"""EBS volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.instances import refuse_dry_run
from cloudsim.ec2.lookup import named
from cloudsim.ec2.paging import page
from cloudsim.ec2.views import tag_list
from cloudsim.world import Resource, ResourceKind


def _state(volume: Resource) -> str:
    return "in-use" if volume.vm_id else "available"


_FIELDS: dict[str, Callable[[Resource], str | Iterable[str] | None]] = {
    "attachment.instance-id": lambda volume: volume.vm_id,
    "availability-zone": lambda volume: volume.zone,
    "status": _state,
    "volume-id": lambda volume: volume.id,
}


def describe_volumes(call: Call) -> Result:
    """Volumes by id and filter."""
    volumes = named(call, ResourceKind.VOLUME, call.params.get("VolumeIds"))
    matches = compiled(call.params.get("Filters", []), _FIELDS, lambda volume: volume.tags)
    page_items, token = page(filter(matches, volumes), lambda volume: volume.id, call)
    return {"Volumes": [_volume(volume) for volume in page_items], "NextToken": token}


def _volume(volume: Resource) -> dict[str, Any]:
    return {
        "VolumeId": volume.id,
        "AvailabilityZone": volume.zone,
        "CreateTime": volume.created_at,
        "Encrypted": volume.spec["encrypted"],
        "Iops": volume.spec["iops"],
        "Throughput": volume.spec.get("throughput"),
        "KmsKeyId": volume.spec.get("key"),
        "MultiAttachEnabled": False,
        "Size": volume.spec["size"],
        "SnapshotId": volume.spec["snapshot"],
        "State": _state(volume),
        "VolumeType": volume.spec["type"],
        "Tags": tag_list(volume.tags),
        "Attachments": _attachments(volume),
    }


def _attachments(volume: Resource) -> list[dict[str, Any]]:
    if volume.vm_id is None:
        return []
    return [
        {
            "AttachTime": volume.created_at,
            "DeleteOnTermination": volume.delete_with_vm,
            "Device": volume.spec["device"],
            "InstanceId": volume.vm_id,
            "State": "attached",
            "VolumeId": volume.id,
        }
    ]


def delete_volume(call: Call) -> Result:
    """Delete a volume that nothing is attached to."""
    (volume,) = named(call, ResourceKind.VOLUME, [call.params["VolumeId"]])
    if volume.vm_id is not None:
        raise AwsError("VolumeInUse", f"Volume {volume.id} is currently attached to {volume.vm_id}")
    if volume.spec.get("protected"):
        raise AwsError("VolumeInUse", f"Volume {volume.id} is currently in use by another service")
    refuse_dry_run(call)
    call.world.remove_resource(volume.id)
    return {}
