"""The deadline label, renewed on a VM and on its disks."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from app.domain import tags
from workers.providers.base import NotFound
from workers.providers.gcp import instances, operations
from workers.providers.gcp.clients import Clients
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import (
    DisksClient,
    Instance,
    InstancesClient,
    InstancesSetLabelsRequest,
    ZoneSetLabelsRequest,
)


def renew(clients: Clients, region: str, vm_ids: Sequence[str], deadline: datetime) -> None:
    """Labels all that exist, then raises NotFound naming the VMs that Google does not show.

    Labels are replaced as a whole, under the fingerprint of those that were read: OutcomeUnknown when somebody else has changed
    them meanwhile.
    """
    value = str(int(deadline.timestamp()))
    found = instances.with_ids(clients, region, vm_ids)
    for vm, instance in found.items():
        _label_vm(clients, vm, instance, value)
        _label_disks(clients, vm.zone, (disk.source for disk in instance.disks), value)
    missing = sorted(set(vm_ids).difference(map(str, found)))
    if missing:
        raise NotFound(f"no deadline written: Google does not show {', '.join(missing)}", code="notFound")


def _label_vm(clients: Clients, vm: Id, instance: Instance, value: str) -> None:
    body = InstancesSetLabelsRequest(
        labels={**instance.labels, tags.DEADLINE: value}, label_fingerprint=instance.label_fingerprint
    )
    operations.accepted(
        clients.ask(
            clients.of(InstancesClient).set_labels_unary,
            zone=vm.zone,
            instance=vm.number,
            instances_set_labels_request_resource=body,
        )
    )


def _label_disks(clients: Clients, zone: str, sources: Iterable[str], value: str) -> None:
    client = clients.of(DisksClient)
    for name in map(last, sources):
        disk = clients.ask(client.get, zone=zone, disk=name)
        body = ZoneSetLabelsRequest(
            labels={**disk.labels, tags.DEADLINE: value}, label_fingerprint=disk.label_fingerprint
        )
        operations.accepted(
            clients.ask(client.set_labels_unary, zone=zone, resource=name, zone_set_labels_request_resource=body)
        )
