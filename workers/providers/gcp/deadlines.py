"""Labels written on a VM and on its disks: the renewed deadline, and the owner of a VM in a batch."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from app.domain import tags
from workers.providers.common.batch import ask_each, chunks, each
from workers.providers.errors import NotFound, ProviderError
from workers.providers.gcp import instances, operations
from workers.providers.gcp.calls import NAMES_PER_CALL, either
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import (
    Disk,
    DisksClient,
    Instance,
    InstancesClient,
    InstancesSetLabelsRequest,
    ZoneSetLabelsRequest,
)
from workers.providers.types import BatchResult


def renew(clients: GcpClients, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
    """Labels VMs first: their labels are the ones that count."""
    value = {tags.DEADLINE: str(int(deadline.timestamp()))}
    return write(clients, region, dict.fromkeys(vm_ids, value))


def write(clients: GcpClients, region: str, labels: Mapping[str, Mapping[str, str]]) -> BatchResult:
    """Adds labels, given by VM id, to VMs and to the disks that end with them.

    Labels are replaced as a whole, under the fingerprint of those that were read: OutcomeUnknown when somebody else has changed
    them meanwhile.
    """
    instances_by_id, failed = instances.with_ids(clients, region, labels)
    by_id = {str(vm): (vm, instance) for vm, instance in instances_by_id.items()}

    def label(vm_id: str) -> bool:
        if vm_id not in by_id:
            parsed = Id.parse(vm_id)
            unread = failed.get(parsed.zone) if parsed is not None else None
            raise unread or NotFound(f"no label written: Google does not show {vm_id}", code="notFound")
        _label_vm(clients, *by_id[vm_id], labels[vm_id])
        return True

    vms = each(labels, label)
    held = {
        f"{by_id[vm][0].zone}/{last(disk.source)}": vm
        for vm in vms.done
        for disk in by_id[vm][1].disks
        if disk.auto_delete
    }
    disks, unlisted = _disks(clients, held)

    def label_disk(place: str) -> bool:
        zone = place.partition("/")[0]
        if zone in unlisted:
            raise unlisted[zone]
        if place in disks:  # else it has gone with its VM
            _label_disk(clients, zone, disks[place], labels[held[place]])
        return True

    return BatchResult(done=vms.done, refused={**each(held, label_disk).refused, **vms.refused})


def _label_vm(clients: GcpClients, vm: Id, instance: Instance, added: Mapping[str, str]) -> None:
    body = InstancesSetLabelsRequest(labels={**instance.labels, **added}, label_fingerprint=instance.label_fingerprint)
    operations.accepted(
        clients.ask(
            clients.of(InstancesClient).set_labels_unary,
            zone=vm.zone,
            instance=vm.number,
            instances_set_labels_request_resource=body,
        )
    )


def _disks(clients: GcpClients, places: Collection[str]) -> tuple[Mapping[str, Disk], Mapping[str, ProviderError]]:
    """The disks that Google lists, by `zone/name`, and the zones that could not be read."""
    names: dict[str, list[str]] = defaultdict(list)
    for place in sorted(places):
        zone, _, name = place.partition("/")
        names[zone].append(name)
    answers, failed = ask_each(names, lambda zone: list(_in_zone(clients, zone, names[zone])))
    return {f"{zone}/{disk.name}": disk for zone, disks in answers.items() for disk in disks}, failed


def _in_zone(clients: GcpClients, zone: str, names: Sequence[str]) -> Iterator[Disk]:
    for chunk in chunks(names, NAMES_PER_CALL):
        for page in clients.pages(clients.of(DisksClient).list, zone=zone, filter=either("name", chunk)):
            yield from page.items


def _label_disk(clients: GcpClients, zone: str, disk: Disk, added: Mapping[str, str]) -> None:
    body = ZoneSetLabelsRequest(labels={**disk.labels, **added}, label_fingerprint=disk.label_fingerprint)
    operations.accepted(
        clients.ask(
            clients.of(DisksClient).set_labels_unary,
            zone=zone,
            resource=disk.name,
            zone_set_labels_request_resource=body,
        )
    )
