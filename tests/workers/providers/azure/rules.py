"""Inbound rules as Azure tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from tests.workers.providers.contract import Inbound
from workers.providers.azure import instances, names, nics
from workers.providers.azure.clients import Group


def firewalls(group: Group, vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """What the group on the VM's interface lets in, by the group's id; what it denies is left out."""
    one, rules = _security_group(group, vm_id)
    return {str(one): list(_rules(rules))}


@dataclass(frozen=True)
class Network:
    """Where a VM is in the network. `rules`: of the group on its interface, Azure's own included; None without a group."""

    address: IPv4Address | IPv6Address
    members: set[str]
    rules: Sequence[Any] | None


def network_of(group: Group, vm_id: str) -> Network:
    (configuration,) = _interface(group, vm_id)["properties"]["ipConfigurations"]
    properties = configuration["properties"]
    one, rules = _security_group(group, vm_id)
    return Network(
        address=ip_address(properties["privateIPAddress"]),
        members={one["id"] for one in properties.get("applicationSecurityGroups", ())},
        rules=None if one is None else [rule["properties"] for rule in rules],
    )


def reaches(source: Network, target: Network, port: int) -> bool:
    """By the first rule that applies, Azure's own rules last. Without a group on the interface, the VMs of a network reach each other.

    Source: Azure docs, "Network security groups overview". Subnets have no group here.
    """
    if target.rules is None:
        return True
    for rule in sorted(target.rules, key=lambda rule: int(rule["priority"])):
        if rule["direction"] == "Inbound" and _is_to(rule, port) and _is_from(rule, source.members, source.address):
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


def _security_group(group: Group, vm_id: str) -> tuple[str | None, Any]:
    one = _interface(group, vm_id)["properties"].get("networkSecurityGroup", {}).get("id")
    if one is None:
        return None, []
    document: Any = group.network.network_security_groups.get(group.name, names.last(one))
    properties = document["properties"]
    return one, [*properties["securityRules"], *properties["defaultSecurityRules"]]


def _interface(group: Group, vm_id: str) -> Any:
    interface = nics.get(group, nics.ids_of(instances.require(group, vm_id))[0])
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
