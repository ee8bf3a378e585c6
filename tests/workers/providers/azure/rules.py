"""Inbound rules as Azure tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from tests.workers.providers.contract import Inbound
from workers.providers.azure import instances, interfaces, names
from workers.providers.azure.clients import Group


def firewalls(group: Group, vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """What the group on the VM's interface lets in, by the group's id; what it denies is left out."""
    one, rules = _security_group(group, vm_id)
    return {str(one): list(_rules(rules))}


def reaches(group: Group, source: str, target: str, port: int) -> bool:
    """By the first rule that applies, Azure's own rules last. Without a group on the interface, the VMs of a network reach each other.

    Source: Azure docs, "Network security groups overview". Subnets have no group here.
    """
    theirs = _members(group, source)
    one, rules = _security_group(group, target)
    if one is None:
        return True
    (configuration,) = _interface(group, source)["properties"]["ipConfigurations"]
    address = ip_address(configuration["properties"]["privateIPAddress"])
    for rule in sorted((rule["properties"] for rule in rules), key=lambda rule: rule["priority"]):
        if rule["direction"] == "Inbound" and _is_to(rule, port) and _is_from(rule, theirs, address):
            return bool(rule["access"] == "Allow")
    raise AssertionError("Azure's last rule applies to everything")


def _is_to(rule: Any, port: int) -> bool:
    first, _, last = rule["destinationPortRange"].partition("-")
    return rule["protocol"] in {"*", "Tcp"} and (first == "*" or int(first) <= port <= int(last or first))


def _is_from(rule: Any, groups: set[str], address: IPv4Address | IPv6Address) -> bool:
    named = {member["id"] for member in rule.get("sourceApplicationSecurityGroups", ())}
    prefixes = rule.get("sourceAddressPrefixes", ())
    return (
        bool(named & groups)
        or rule.get("sourceAddressPrefix") in {"*", "VirtualNetwork"}
        or any(address in ip_network(prefix) for prefix in prefixes)
    )


def placement(group: Group, vm_id: str) -> str | None:
    properties = instances.require(group, vm_id)["properties"]
    near: str | None = properties.get("proximityPlacementGroup", {}).get("id")
    return near


def _members(group: Group, vm_id: str) -> set[str]:
    (configuration,) = _interface(group, vm_id)["properties"]["ipConfigurations"]
    return {one["id"] for one in configuration["properties"].get("applicationSecurityGroups", ())}


def _security_group(group: Group, vm_id: str) -> tuple[str | None, Any]:
    one = _interface(group, vm_id)["properties"].get("networkSecurityGroup", {}).get("id")
    if one is None:
        return None, []
    document: Any = group.network.network_security_groups.get(group.name, names.last(one))
    properties = document["properties"]
    return one, [*properties["securityRules"], *properties["defaultSecurityRules"]]


def _interface(group: Group, vm_id: str) -> Any:
    interface = interfaces.get(group, interfaces.ids_of(instances.require(group, vm_id))[0])
    assert interface is not None
    return interface


def _rules(rules: Sequence[Any]) -> Iterator[Inbound]:
    for rule in (one["properties"] for one in rules):
        if (rule["access"], rule["direction"]) == ("Allow", "Inbound"):
            if rule["destinationPortRange"] == "*":
                continue  # for VMs of a group, not for networks
            first, _, last = rule["destinationPortRange"].partition("-")
            for network in rule.get("sourceAddressPrefixes", ()):
                yield rule["protocol"].lower(), int(first), int(last or first), network
