"""The network interfaces of a VM: one, or one on each network card for a group that uses EFA."""

from collections.abc import Sequence
from typing import Any

from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnet
from workers.providers.types import LaunchSpec


def wants_efa(spec: LaunchSpec) -> bool:
    """An EFA interface serves traffic between the VMs of a group. A lease of its own has none."""
    return spec.group is not None and spec.group.interconnect != "none"


def plan(
    spec: LaunchSpec, account: AwsAccount, subnet: Subnet | None, *, ena_express: bool, efa: Sequence[int]
) -> list[dict[str, Any]]:
    """`efa`: the network cards that get an EFA interface. The interface of the first card has the VM's address.

    The others have no address (`efa-only`). EC2 gives a VM with several interfaces no public address. ENA Express, which
    is for types without EFA traffic, is only on a single Ethernet interface.
    """
    first: dict[str, Any] = {"DeviceIndex": 0, "DeleteOnTermination": True}
    others = [card for card in efa if card > 0]
    if not others:
        first["AssociatePublicIpAddress"] = spec.public_ip and account.public_addresses
    if 0 in efa:
        first["InterfaceType"] = "efa"
    elif ena_express and not efa:
        first["EnaSrdSpecification"] = {"EnaSrdEnabled": True}
    if others:
        first["NetworkCardIndex"] = 0
    common: dict[str, Any] = {}
    if subnet is not None:
        common["SubnetId"] = subnet.id
    if account.security_group_ids:
        common["Groups"] = list(account.security_group_ids)
    return [{**first, **common}, *(_efa_only(card) | common for card in others)]


def _efa_only(card: int) -> dict[str, Any]:
    return {"DeviceIndex": 1, "NetworkCardIndex": card, "InterfaceType": "efa-only", "DeleteOnTermination": True}
