"""Virtual networks with their subnets, and the rules of every network security group. Every network exists; its name begins with its region, and it has one subnet."""

from __future__ import annotations

from collections.abc import Iterator

from cloudsim.arm.call import NETWORK, Answer, Call, Document
from cloudsim.arm.catalog import PROVIDER, REGIONS
from cloudsim.arm.errors import not_found
from cloudsim.world.restrictions import FREE_ADDRESSES

_KIND = f"{NETWORK}/virtualNetworks"
_SUBNET = "gpus"


def get(call: Call) -> Answer:
    """One network. Raises ArmError ResourceNotFound for a name that begins with no region."""
    region = next((region for region in sorted(REGIONS, reverse=True) if call.name.startswith(region)), None)
    if region is None:
        raise not_found(_KIND, call.name, call.group)
    network = call.id_of(_KIND, call.name)
    subnet, restrictions = f"{network}/subnets/{_SUBNET}", call.world.restrictions
    used = FREE_ADDRESSES - restrictions.free_addresses(PROVIDER, subnet)
    properties = {
        "addressPrefix": "10.0.0.0/20",
        "ipConfigurations": [{"id": f"{subnet}/ipConfigurations/{number}"} for number in range(used)],
        "provisioningState": "Succeeded" if restrictions.is_open(PROVIDER, subnet) else "Failed",
    }
    return Answer(
        {
            "id": network,
            "name": call.name,
            "type": _KIND,
            "location": region,
            "properties": {
                "provisioningState": "Succeeded",
                "subnets": [{"id": subnet, "name": _SUBNET, "properties": properties}],
            },
        }
    )


def default_rules(group: str) -> Iterator[Document]:
    """The inbound rules that Azure gives every group (Azure docs, "Network security groups overview")."""
    for name, priority, source, destination, access in (
        ("AllowVnetInBound", 65000, "VirtualNetwork", "VirtualNetwork", "Allow"),
        ("AllowAzureLoadBalancerInBound", 65001, "AzureLoadBalancer", "*", "Allow"),
        ("DenyAllInBound", 65500, "*", "*", "Deny"),
    ):
        properties = {
            "provisioningState": "Succeeded",
            "priority": priority,
            "access": access,
            "direction": "Inbound",
            "protocol": "*",
            "sourceAddressPrefix": source,
            "sourcePortRange": "*",
            "destinationAddressPrefix": destination,
            "destinationPortRange": "*",
        }
        yield {"name": name, "id": f"{group}/defaultSecurityRules/{name}", "properties": properties}
