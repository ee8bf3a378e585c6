"""Inbound rules as Azure tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.workers.providers.contract import Inbound
from workers.providers.azure import instances, interfaces, names
from workers.providers.azure.clients import Group


def firewalls(group: Group, vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """What the group on the VM's interface lets in, by the group's id; what it denies is left out."""
    vm = instances.require(group, vm_id)
    interface = interfaces.get(group, interfaces.ids_of(vm)[0])
    assert interface is not None
    one = interface["properties"]["networkSecurityGroup"]["id"]
    document: Any = group.network.network_security_groups.get(group.name, names.last(one))
    return {one: list(_rules(document["properties"]["securityRules"]))}


def _rules(rules: Sequence[Any]) -> Iterator[Inbound]:
    for rule in (one["properties"] for one in rules):
        if (rule["access"], rule["direction"]) == ("Allow", "Inbound"):
            first, _, last = rule["destinationPortRange"].partition("-")
            for network in rule["sourceAddressPrefixes"]:
                yield rule["protocol"].lower(), int(first), int(last or first), network
