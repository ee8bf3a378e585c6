"""The network interfaces that RunInstances requests: one, or one on each network card with EFA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudsim.ec2.call import Call
from cloudsim.ec2.catalog import EFA_CARDS, ENA_EXPRESS
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.world import NicOrder

Interface = Mapping[str, Any]
_EFA = ("efa", "efa-only")


def read(params: Mapping[str, Any], machine: str) -> Sequence[Interface]:
    """The interfaces, the first one with device index 0. Raises AwsError as EC2 refuses them."""
    interfaces: list[Interface] = params.get("NetworkInterfaces", [])
    if not interfaces:
        return []
    for clash, what in (
        ("SubnetId", "subnet ID"),
        ("SecurityGroupIds", "security groups"),
        ("SecurityGroups", "security groups"),
    ):
        if params.get(clash):
            raise AwsError(
                "InvalidParameterCombination",
                f"Network interfaces and an instance-level {what} may not be specified on the same request",
            )
    _check_cards(interfaces, machine)
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in interface for interface in interfaces):
        raise AwsError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        )
    if len({interface.get("SubnetId") for interface in interfaces}) > 1:
        raise bad_value("", "NetworkInterfaces.SubnetId", "Interfaces in several subnets are not simulated.")
    for interface in interfaces:
        _check_type(interface, machine)
    return interfaces


def _check_cards(interfaces: Sequence[Interface], machine: str) -> None:
    """One interface on each card, with device index 0 on the first card and 1 on the others."""
    cards = [interface.get("NetworkCardIndex", 0) for interface in interfaces]
    if cards[0] != 0 or len(set(cards)) < len(cards):
        raise bad_value(cards, "NetworkInterfaces.NetworkCardIndex", "One interface on each network card is simulated.")
    known = {0, *EFA_CARDS.get(machine, ())}
    for interface, card in zip(interfaces, cards, strict=True):
        if card not in known:
            raise bad_value(card, "NetworkInterfaces.NetworkCardIndex", f"{machine} has no such network card.")
        if interface.get("DeviceIndex", 0) != (0 if card == 0 else 1):
            raise bad_value(
                interface.get("DeviceIndex"), "NetworkInterfaces.DeviceIndex", "0 on the first card, 1 on others."
            )


def _check_type(interface: Interface, machine: str) -> None:
    kind, card = interface.get("InterfaceType", "interface"), interface.get("NetworkCardIndex", 0)
    if kind not in ("interface", *_EFA):
        raise bad_value(kind, "NetworkInterfaces.InterfaceType")
    if kind in _EFA and card not in EFA_CARDS.get(machine, ()):
        raise AwsError("InvalidParameterCombination", f"EFA interfaces are not supported on {machine}, card {card}.")
    if kind == "efa-only" and card == 0:
        raise AwsError("InvalidParameterCombination", "The primary network interface cannot be EFA-only.")
    express = interface.get("EnaSrdSpecification", {}).get("EnaSrdEnabled")
    if express and (machine not in ENA_EXPRESS or kind in _EFA):
        raise AwsError("InvalidParameterCombination", f"ENA Express is not supported for the instance type {machine}.")


def order(call: Call, interface: Interface, groups: list[dict[str, str]], tags: Mapping[str, str]) -> NicOrder:
    """The interface as the world makes it."""
    return NicOrder(
        id=f"eni-{call.world.hex(17)}",
        tags=tags,
        delete_with_vm=interface.get("DeleteOnTermination", True),
        spec={
            "attachment": f"eni-attach-{call.world.hex(17)}",
            "device_index": interface.get("DeviceIndex", 0),
            "card": interface.get("NetworkCardIndex", 0),
            "type": interface.get("InterfaceType", "interface"),
            "groups": groups,
            "subnet": interface.get("SubnetId"),
        },
    )
