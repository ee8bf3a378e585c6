"""The network interfaces of a VM, checked the way Compute Engine checks them.

Source: Compute Engine guide, "Networking and GPU machines" and "Multiple network interfaces"; VPC guide, "RDMA network
profiles". Subnetworks whose name begins with `rdma-` belong to the RDMA network of the zone. Every other subnetwork is in
the network of its own name, or of the part before `--`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudsim.gce import existing, links
from cloudsim.gce.catalog import GVNIC_ONLY, family
from cloudsim.gce.errors import invalid, not_found
from cloudsim.world import MachineType

RDMA_PREFIX = "rdma-"
_FIELD = "resource.networkInterfaces"
_MOST = 10
_GVNICS: Mapping[str, int] = {
    "a3-highgpu-8g": 5,
    "a3-edgegpu-8g": 5,
    "a3-megagpu-8g": 9,
    "a3-ultragpu-8g": 2,
    "a4-highgpu-8g": 2,
}
_MRDMA: Mapping[str, int] = {"a3-ultragpu-8g": 8, "a4-highgpu-8g": 8}
Body = Mapping[str, Any]


def read_interfaces(body: Body, machine: MachineType) -> list[Body]:
    """The interfaces of a launch, the one of the VM's address first. Raises GceError as Google would refuse them."""
    interfaces: list[Body] = body.get("networkInterfaces", [])
    if not interfaces:
        raise invalid(_FIELD, "At least one network interface is required.")
    for number, interface in enumerate(interfaces):
        _check_one(number, interface, machine.name)
    _check_number(interfaces, machine)
    networks = [network_of(interface) for interface in interfaces if interface.get("nicType") != "MRDMA"]
    if len(set(networks)) < len(networks):
        raise invalid(_FIELD, "Networks must be distinct for NICs attached to a VM.")
    subnetworks = [interface["subnetwork"] for interface in interfaces if interface.get("nicType") == "MRDMA"]
    if len(set(subnetworks)) < len(subnetworks):
        raise invalid(_FIELD, "Subnetworks must be distinct for MRDMA NICs attached to a VM.")
    return interfaces


def network_of(interface: Body) -> str:
    """The name of the network of an interface."""
    return links.last(interface.get("subnetwork") or interface.get("network", "")).partition("--")[0]


def _check_one(number: int, interface: Body, machine: str) -> None:
    link, kind = interface.get("subnetwork") or interface.get("network", ""), interface.get("nicType", "GVNIC")
    field = f"{_FIELD}[{number}]"
    if not existing.is_network(link):
        raise not_found(link)
    in_rdma = links.last(link).startswith(RDMA_PREFIX)
    if kind == "MRDMA":
        if machine not in _MRDMA:
            raise invalid(f"{field}.nicType", f"The machine type '{machine}' does not support MRDMA.")
        if number == 0 or not in_rdma or "subnetwork" not in interface:
            raise invalid(field, "An MRDMA interface needs a subnetwork with an RDMA network profile, and is not nic0.")
        if interface.get("accessConfigs"):
            raise invalid(f"{field}.accessConfigs", "An MRDMA interface has no external address.")
    elif in_rdma:
        raise invalid(f"{field}.nicType", "A network with an RDMA network profile takes MRDMA interfaces alone.")
    elif family(machine) in GVNIC_ONLY and kind != "GVNIC":
        raise invalid(f"{field}.nicType", f"The machine type '{machine}' requires GVNIC.")


def _check_number(interfaces: Sequence[Body], machine: MachineType) -> None:
    """Without a limit of its own, a machine type has one interface for each vCPU, at least two."""
    rdma = sum(interface.get("nicType") == "MRDMA" for interface in interfaces)
    most = _GVNICS.get(machine.name, min(max(2, machine.vcpus), _MOST))
    if family(machine.name) in GVNIC_ONLY and machine.name not in _GVNICS:
        most = 1
    if len(interfaces) - rdma > most or rdma > _MRDMA.get(machine.name, 0):
        raise invalid(
            _FIELD, f"The number of network interfaces exceeds what the machine type '{machine.name}' supports."
        )
    if rdma not in {0, _MRDMA.get(machine.name, 0)}:
        raise invalid(_FIELD, f"The machine type '{machine.name}' needs all of its MRDMA interfaces or none.")
