"""Labels written on a VM and on its disks: the renewed deadline, and the owner of a VM in a batch."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.domain import tags
from workers.providers.common.batch import each
from workers.providers.errors import NotFound
from workers.providers.gcp import instances, operations
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import (
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
    """Adds labels, given by VM id, to VMs and to their disks.

    Labels are replaced as a whole, under the fingerprint of those that were read: OutcomeUnknown when somebody else has changed
    them meanwhile.
    """
    found, failed = instances.with_ids(clients, region, labels)
    shown = {str(vm): (vm, instance) for vm, instance in found.items()}

    def label(vm_id: str) -> bool:
        if vm_id not in shown:
            parsed = Id.parse(vm_id)
            unread = failed.get(parsed.zone) if parsed is not None else None
            raise unread or NotFound(f"no label written: Google does not show {vm_id}", code="notFound")
        _label_vm(clients, *shown[vm_id], labels[vm_id])
        return True

    vms = each(labels, label)
    disks = {disk.source: vm for vm in vms.done for disk in shown[vm][1].disks}
    left = each(
        disks, lambda source: _label_disk(clients, shown[disks[source]][0].zone, last(source), labels[disks[source]])
    )
    return BatchResult(done=vms.done, refused={**left.refused, **vms.refused})


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


def _label_disk(clients: GcpClients, zone: str, name: str, added: Mapping[str, str]) -> bool:
    """Whether Google knows the disk."""
    client = clients.of(DisksClient)
    try:
        disk = clients.ask(client.get, zone=zone, disk=name)
    except NotFound:
        return False
    body = ZoneSetLabelsRequest(labels={**disk.labels, **added}, label_fingerprint=disk.label_fingerprint)
    operations.accepted(
        clients.ask(client.set_labels_unary, zone=zone, resource=name, zone_set_labels_request_resource=body)
    )
    return True
