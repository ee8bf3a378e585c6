"""The network interfaces of a VM: one, and for a group those that GPUs use between VMs.

Source: Compute Engine guide, "Networking and GPU machines", and VPC guide, "RDMA network profiles". A3 Edge and A3 High
have four further GVNIC interfaces (GPUDirect-TCPX), A3 Mega has eight (GPUDirect-TCPXO). Each is in a network of its own.
A3 Ultra and A4 have one further GVNIC interface, and eight MRDMA interfaces in subnetworks of one RDMA network, which
belongs to a zone.
"""

from typing import Any

from workers.providers.errors import NotOffered
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import LaunchSpec

GVNIC, MRDMA = "GVNIC", "MRDMA"


def has_gpu_networks(account: GcpAccount, machine: Machine, region: str, zone: str) -> bool:
    """Whether the account names enough networks for all interfaces of a type there. False for a type without such ones."""
    gvnics = len(account.gpu_networks.get(region, ())) >= machine.gpu_gvnics
    rdma = len(account.rdma_subnetworks.get(zone, ())) >= machine.gpu_rdma
    return gvnics and rdma and machine.gpu_gvnics + machine.gpu_rdma > 0


def uses_gpu_networks(spec: LaunchSpec, account: GcpAccount, machine: Machine) -> bool:
    """Whether the VM gets these interfaces: a member of a group that wants a network fabric.

    Raises NotOffered when the group requires one, and the account has none for this type here.
    """
    if spec.group is None or spec.group.interconnect == "none":
        return False
    available = has_gpu_networks(account, machine, spec.region, spec.zone)
    if not available and spec.group.interconnect == "required":
        message = f"the account names no GPU networks for {machine.machine_type} in {spec.zone}: see `gpu_networks`"
        raise NotOffered(message, code="GpuNetworksMissing")
    return available


def plan(spec: LaunchSpec, account: GcpAccount, machine: Machine, network: str) -> list[dict[str, Any]]:
    """The first interface has the VM's address. The others have no external address. Raises NotOffered."""
    first = _first(spec, account, network)
    if not uses_gpu_networks(spec, account, machine):
        return [first]
    place = f"projects/{account.network_project}/regions/{spec.region}/subnetworks/"
    gvnics = account.gpu_networks.get(spec.region, ())[: machine.gpu_gvnics]
    rdma = account.rdma_subnetworks.get(spec.zone, ())[: machine.gpu_rdma]
    return [
        {**first, "nicType": GVNIC},
        *(
            {"subnetwork": place + network_and_subnet.partition("/")[2], "nicType": GVNIC}
            for network_and_subnet in gvnics
        ),
        *({"subnetwork": place + subnetwork, "nicType": MRDMA} for subnetwork in rdma),
    ]


def gpu_networks(spec: LaunchSpec, account: GcpAccount, machine: Machine) -> list[str]:
    """The networks of the further GVNIC interfaces. They need firewall rules, which an RDMA network does not take."""
    if not uses_gpu_networks(spec, account, machine):
        return []
    named = account.gpu_networks.get(spec.region, ())[: machine.gpu_gvnics]
    return [
        f"projects/{account.network_project}/global/networks/{network_and_subnet.partition('/')[0]}"
        for network_and_subnet in named
    ]


def _first(spec: LaunchSpec, account: GcpAccount, network: str) -> dict[str, Any]:
    interface: dict[str, Any] = {"network": network}
    subnetwork = account.subnetworks.get(spec.region)
    if subnetwork is not None:
        own = f"projects/{account.network_project}/regions/{spec.region}/subnetworks/{subnetwork}"
        interface = {"subnetwork": subnetwork if "/" in subnetwork else own}
    if spec.image.nic_type is not None:
        interface["nicType"] = spec.image.nic_type
    if spec.public_ip and account.public_addresses:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface
