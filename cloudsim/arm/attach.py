"""Ties the resources that the world made with a VM to it in Azure's words."""

from __future__ import annotations

from collections.abc import Mapping

from cloudsim.arm import views
from cloudsim.world import Resource, Vm


def attach(resources: Mapping[str, Resource], vm: Vm, address_id: str | None) -> None:
    """Disks and interface learn the VM's id, the interface its addresses."""
    of_vm = views.vm_id(vm)
    for disk in (vm.spec["disk"], *vm.spec.get("data_disks", ())):
        resources[disk].spec["vm"] = of_vm
    resources[vm.spec["nic"]].spec.update(vm=of_vm, ip=vm.private_ip, address=address_id)
