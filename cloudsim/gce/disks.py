"""Disks: lists, delete, labels. They are made with their VM alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cloudsim.gce import links, operations, views
from cloudsim.gce.call import Call, Result
from cloudsim.gce.errors import GceError
from cloudsim.gce.labels import check as check_labels
from cloudsim.gce.listing import Kind, ListEntry, after, aggregated, asked, flat
from cloudsim.world import Resource, ResourceKind

KIND = Kind("disk", "disks")
AGGREGATED = "disks.aggregatedList"


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
    call.world.remove_resource(disk.id)
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
