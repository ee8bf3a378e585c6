"""Disks: insert, lists, attachment, delete, labels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cloudsim.gce import existing, links, operations, views
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.disk_requests import LEAST_GIB, MOST_GIB, check_key
from cloudsim.gce.errors import GceError, invalid
from cloudsim.gce.labels import check as check_labels
from cloudsim.gce.listing import Kind, ListEntry, after, aggregated, asked, flat
from cloudsim.world import Resource, ResourceKind, VmState

KIND = Kind("disk", "disks")
AGGREGATED = "disks.aggregatedList"


def insert(call: Call) -> Result:
    """An empty disk. Raises GceError alreadyExists for a name that is taken in the zone."""
    name, size, kind = call.body.get("name", ""), int(call.body.get("sizeGb", 0)), links.last(call.body.get("type", ""))
    if any(disk.zone == call.zone and disk.spec["name"] == name for disk in views.disks_of(call.world, call.project)):
        raise GceError(
            "alreadyExists", f"The resource 'projects/{call.project}/zones/{call.zone}/disks/{name}' already exists"
        )
    if not LEAST_GIB <= size <= MOST_GIB:
        raise invalid("resource.sizeGb", f"must be at least {LEAST_GIB} GB.")
    if kind not in existing.DISK_TYPES:
        raise invalid("resource.type", f"The disk type '{kind}' does not exist.")
    key = call.body.get("diskEncryptionKey", {}).get("kmsKeyName")
    check_key(key, call.region)
    disk = Resource(
        kind=ResourceKind.VOLUME,
        provider=PROVIDER,
        account=call.project,
        region=call.region,
        zone=call.zone,
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        tags=check_labels(call.body.get("labels", {})),
        created_at=call.now,
        spec={"name": name, "size": size, "type": kind, "image": None, "boot": False, "device": None, "key": key},
    )
    call.world.add_resource(disk)
    return operations.at_once(call, "insert", _link(disk), disk.id)


def attach(call: Call) -> Result:
    """Attaches a disk of the zone to a running VM. Google refuses a disk that any VM has."""
    vm, body = call.vm(), call.body
    disk = call.resource(ResourceKind.VOLUME, links.last(body.get("source", "")))
    device = body.get("deviceName") or f"persistent-disk-{len(vm.resources)}"
    if disk.vm_id is not None:
        raise GceError("resourceInUseByAnotherResource", f"The disk resource '{_link(disk)}' is already being used.")
    if vm.state is not VmState.RUNNING or not call.world.is_made(disk):
        raise GceError("resourceNotReady", f"The resource '{_link(disk)}' is not ready")
    held = (call.world.resources.get(resource_id) for resource_id in vm.resources)
    if device in [part.spec.get("device") for part in held if part is not None and part.vm_id == vm.id]:
        raise invalid("resource.deviceName", f"The device name '{device}' is already in use.")
    call.world.attach(disk, vm, {"device": device})
    disk.delete_with_vm = bool(body.get("autoDelete"))
    link = links.zonal(call.project, call.zone, "instances", vm.name)
    return operations.at_once(call, "attachDisk", link, vm.id)


def get(call: Call) -> Result:
    """One disk by name or number."""
    return views.disk(call.world, _disk(call, "disk"))


def list_(call: Call) -> Result:
    """One page of a zone's disks."""
    entries = (entry for entry in _listed(call) if entry.zone == call.zone)
    return flat(call, KIND, entries, f"zones/{call.zone}/disks")


def aggregated_list(call: Call) -> Result:
    """One page of all zones' disks."""
    return aggregated(call, KIND, _listed(call), AGGREGATED)


def _listed(call: Call) -> Iterator[ListEntry]:
    start = after(call)
    chosen = asked(call)
    label, name = chosen.exact("labels."), chosen.exact("name")
    for position, disk in enumerate(views.disks_of(call.world, call.project), start=1):
        if name is not None and disk.spec["name"] not in name[1]:
            continue
        if position > start and (label is None or disk.tags.get(label[0]) in label[1]):
            yield ListEntry(position, disk.zone, partial(views.disk, call.world, disk))


def delete(call: Call) -> Result:
    """Only a disk that no VM holds."""
    disk = _disk(call, "disk")
    if disk.vm_id is not None:
        holder = call.world.vms[disk.vm_id].name
        raise GceError(
            "resourceInUseByAnotherResource",
            f"The disk resource '{_link(disk)}' is already being used by '{links.zonal(call.project, call.zone, 'instances', holder)}'",
        )
    if disk.spec.get("protected"):
        raise GceError("resourceNotReady", f"The resource '{_link(disk)}' is not ready")
    call.world.delete_disk(disk)
    return operations.at_once(call, "delete", _link(disk), disk.id)


def set_labels(call: Call) -> Result:
    """Replaces all labels, if they are still those of the fingerprint."""
    disk = _disk(call, "resource")
    call.check_fingerprint(str(call.body.get("labelFingerprint")), links.fingerprint(sorted(disk.tags.items())))
    disk.tags = check_labels(call.body.get("labels", {}))
    call.world.touch_resource(disk.id)
    return operations.at_once(call, "setLabels", _link(disk), disk.id)


def _disk(call: Call, parameter: str) -> Resource:
    return call.resource(ResourceKind.VOLUME, call.path[parameter])


def _link(disk: Resource) -> str:
    return links.zonal(disk.account, disk.zone, "disks", disk.spec["name"])
