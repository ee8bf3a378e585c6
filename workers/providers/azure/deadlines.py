"""The deadline tag, renewed on a VM and on what belongs to it.

A PATCH replaces all tags of a resource. What was made with a VM carries the VM's tags: they are written whole, which also
tags a disk that was left without.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from app.domain.tags import DEADLINE
from workers.providers.azure import instances, interfaces, names, resource_tags
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import GONE, translated
from workers.providers.base import NotFound
from workers.providers.one_by_one import each


def renew(group: Group, ids: Sequence[str], deadline: datetime) -> None:
    """Tags all that exist, then raises NotFound naming the VMs that Azure does not show."""
    missing: list[str] = []

    def write(one: str) -> None:
        vm = instances.document_of(group, *names.split(one))
        if vm is None:
            missing.append(one)
        else:
            _write(group, vm, resource_tags.read(vm.get("tags")) | {DEADLINE: str(int(deadline.timestamp()))})

    each(ids, write)
    if missing:
        raise NotFound(f"no deadline written: Azure does not show {', '.join(sorted(missing))}", code=GONE)


def _write(group: Group, vm: Document, tags: dict[str, str]) -> None:
    """The VM first: its tag is the one that counts."""
    body: Any = {"tags": tags}
    with translated():
        group.compute.virtual_machines.begin_update(group.name, part(vm, "name"), body, polling=False)
        for disk in _disks(vm):
            group.compute.disks.begin_update(group.name, disk, body, polling=False)
    for interface_id in interfaces.ids_of(vm):
        _write_interface(group, interface_id, body)


def _disks(vm: Document) -> Iterator[str]:
    disk = (part(vm, "properties", "storageProfile").get("osDisk") or {}).get("managedDisk") or {}
    if disk.get("id"):
        yield names.last(disk["id"])


def _write_interface(group: Group, interface_id: str, body: Any) -> None:
    interface = interfaces.get(group, interface_id)
    if interface is None:
        return
    address = interfaces.public_id(interface)
    with translated():
        group.network.network_interfaces.update_tags(group.name, part(interface, "name"), body)
        if address is not None:
            group.network.public_ip_addresses.update_tags(group.name, names.last(address), body)
