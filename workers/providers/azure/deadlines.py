"""The deadline tag, renewed on a VM and on what belongs to it.

A PATCH replaces all tags of a resource. What was made with a VM carries the VM's tags: they are written whole, which also
tags a disk that was left without.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.domain.tags import DEADLINE
from workers.providers.azure import disks, instances, names, nics, resource_tags
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import GONE, translated
from workers.providers.common.batch import each
from workers.providers.errors import NotFound, ProviderError
from workers.providers.types import BatchResult


def renew(group: Group, ids: Sequence[str], deadline: datetime) -> BatchResult:
    """Tags VMs first: their tags are the ones that count."""
    left: dict[str, ProviderError] = {}

    def write(vm_id: str) -> bool:
        vm = instances.document_of(group, *names.split(vm_id))
        if vm is None:
            raise NotFound(f"no deadline written: Azure does not show {vm_id}", code=GONE)
        body = {"tags": resource_tags.read(vm.get("tags")) | {DEADLINE: str(int(deadline.timestamp()))}}
        _write_vm(group, vm, body)
        left.update(_write_belongings(group, vm, body).refused)
        return True

    vms = each(ids, write)
    return BatchResult(done=vms.done, refused={**left, **vms.refused})


def _write_vm(group: Group, vm: Document, body: Any) -> None:
    with translated():
        group.compute.virtual_machines.begin_update(group.name, part(vm, "name"), body, polling=False)


def _write_belongings(group: Group, vm: Document, body: Any) -> BatchResult:
    """By resource id."""
    disk_ids, cards = list(disks.ids_of(vm)), nics.ids_of(vm)

    def write(resource_id: str) -> bool:
        if resource_id in disk_ids:
            return _write_disk(group, names.last(resource_id), body)
        return _write_interface(group, resource_id, body)

    return each([*disk_ids, *cards], write)


def _write_disk(group: Group, name: str, body: Any) -> bool:
    with translated():
        group.compute.disks.begin_update(group.name, name, body, polling=False)
    return True


def _write_interface(group: Group, interface_id: str, body: Any) -> bool:
    """Its public address with it. Answers whether Azure knows the interface."""
    interface = nics.get(group, interface_id)
    if interface is None:
        return False
    address = nics.public_id(interface)
    with translated():
        group.network.network_interfaces.update_tags(group.name, part(interface, "name"), body)
        if address is not None:
            group.network.public_ip_addresses.update_tags(group.name, names.last(address), body)
    return True
