"""EBS volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2 import existing
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.disks import INCLUDED_IOPS, LEAST_MIB, check_performance
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.instances import refuse_dry_run, require
from cloudsim.ec2.lookup import named
from cloudsim.ec2.paging import page
from cloudsim.ec2.tag_rules import read_tags
from cloudsim.ec2.views import tag_list
from cloudsim.world import Resource, ResourceKind, VmState, World

_MOST_GIB = 65_536


def _state(world: World, volume: Resource) -> str:
    if volume.vm_id:
        return "in-use"
    if "gone_from" in volume.spec:
        return "deleting"
    return "available" if world.is_made(volume) else "creating"


def _fields(world: World) -> dict[str, Callable[[Resource], str | Iterable[str] | None]]:
    return {
        "attachment.instance-id": lambda volume: volume.vm_id,
        "availability-zone": lambda volume: volume.zone,
        "status": lambda volume: _state(world, volume),
        "volume-id": lambda volume: volume.id,
    }


def create_volume(call: Call) -> Result:
    """An empty gp3 volume in a zone. A repeat with the same client token returns the same volume."""
    params = call.params
    zone, size, token = params.get("AvailabilityZone"), params.get("Size"), params.get("ClientToken")
    if zone not in call.zones:
        raise AwsError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    if not isinstance(size, int) or not 1 <= size <= _MOST_GIB or params.get("VolumeType", "gp2") != "gp3":
        raise bad_value(
            f"{size}, {params.get('VolumeType')}", "size", "Only gp3 volumes of 1 to 65536 GiB are simulated."
        )
    check_performance(size, params)
    key = params.get("KmsKeyId")
    if key is not None and not existing.is_key(key):
        raise AwsError("InvalidKmsKeyId", f"The key '{key}' does not exist.")
    tags = _specified_tags(params)
    refuse_dry_run(call)
    spec = {
        "device": None,
        "size": size,
        "type": "gp3",
        "iops": params.get("Iops", INCLUDED_IOPS),
        "throughput": params.get("Throughput", LEAST_MIB),
        "encrypted": params.get("Encrypted", False),
        "key": key,
        "snapshot": "",
        "token": token,
    }
    earlier = [volume for volume in call.resources(ResourceKind.VOLUME) if token and volume.spec.get("token") == token]
    if earlier and (earlier[0].zone, earlier[0].spec["size"]) != (zone, size):
        raise AwsError("IdempotentParameterMismatch", "The request uses the same client token, and other parameters.")
    _check_limit(call, 0 if earlier else size)
    volume = earlier[0] if earlier else _made(call, zone, tags, spec)
    return _volume(call.world, volume)


def _check_limit(call: Call, size: int) -> None:
    most = call.world.settings.volume_gib
    used = sum(int(volume.spec["size"]) for volume in call.resources(ResourceKind.VOLUME))
    if most is not None and used + size > most:
        raise AwsError("VolumeLimitExceeded", "You have exceeded your maximum gp3 storage limit.")


def _made(call: Call, zone: str, tags: dict[str, str], spec: dict[str, Any]) -> Resource:
    volume = Resource(
        kind=ResourceKind.VOLUME,
        provider=PROVIDER,
        account=call.account,
        region=call.region,
        zone=zone,
        id=f"vol-{call.world.hex(17)}",
        tags=tags,
        created_at=call.now,
        spec=spec,
    )
    call.world.add_resource(volume)
    return volume


def _specified_tags(params: dict[str, Any]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for specification in params.get("TagSpecifications", []):
        if specification.get("ResourceType") != "volume":
            raise bad_value(specification.get("ResourceType"), "resourceType", "It is not the type that is created.")
        tags |= read_tags(specification.get("Tags", []))
    return tags


def attach_volume(call: Call) -> Result:
    """Attaches a volume to a VM of its zone. EC2 refuses a volume that any VM has, also this one."""
    (volume,) = named(call, ResourceKind.VOLUME, [call.params["VolumeId"]])
    (vm,) = require(call, [call.params["InstanceId"]])
    device = call.params["Device"]
    if volume.vm_id is not None:
        raise AwsError("VolumeInUse", f"{volume.id} is already attached to an instance")
    if not call.world.is_made(volume):
        raise AwsError("IncorrectState", f"Volume '{volume.id}' is not 'available'.")
    if volume.zone != vm.zone:
        raise AwsError("InvalidVolume.ZoneMismatch", f"The volume '{volume.id}' is not in the zone of '{vm.id}'.")
    if vm.state is not VmState.RUNNING:
        raise AwsError("IncorrectState", f"Instance '{vm.id}' is not 'running'.")
    resources = (call.world.resources.get(resource_id) for resource_id in vm.resources)
    if device in [part.spec.get("device") for part in resources if part is not None and part.vm_id == vm.id]:
        raise bad_value(device, "unixDevice", f"Attachment point {device} is already in use")
    refuse_dry_run(call)
    call.world.attach(volume, vm, {"device": device})
    return _attachments(volume)[0]


def describe_volumes(call: Call) -> Result:
    """Volumes by id and filter."""
    volumes = named(call, ResourceKind.VOLUME, call.params.get("VolumeIds"))
    matches = compiled(call.params.get("Filters", []), _fields(call.world), lambda volume: volume.tags)
    page_items, token = page(filter(matches, volumes), lambda volume: volume.id, call)
    return {"Volumes": [_volume(call.world, volume) for volume in page_items], "NextToken": token}


def _volume(world: World, volume: Resource) -> dict[str, Any]:
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
        "State": _state(world, volume),
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
    call.world.delete_disk(volume)
    return {}
