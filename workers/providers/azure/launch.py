"""A launch specification as the one PUT that makes a VM and what belongs to it, and the group before it."""

import hashlib
import json
from typing import Any

from app.domain.offerings import Market
from app.domain.tokens import launch_name
from workers.providers.azure import firewall, names, places, resource_tags, userdata
from workers.providers.types import LaunchSpec, Params

REQUEST = "gpulease-request"
"""The tag that holds a hash of all other parameters: the same name with other parameters is another request."""

USER = "ubuntu"
_NETWORK_API = "2022-11-01"
"""The version of the Network API that Compute makes the interface with (`networkProfile.networkApiVersion`)."""
_PREMIUM_DISK = "Premium_LRS"


def plan(spec: LaunchSpec, *, group: str, subnet: str) -> Params:
    """JSON-able, the same for the same arguments: `name` and `vm`, and `firewall` where networks are named.

    `group`: id of the resource group. `subnet`: id of the subnet. The VM gets no identity, so no rights at Azure.
    """
    name = launch_name(spec.token)
    labels = resource_tags.of(spec)
    body: dict[str, Any] = {
        "location": spec.region,
        "properties": {
            "hardwareProfile": {"vmSize": spec.instance_type},
            "storageProfile": {"imageReference": _image(spec.image.id), "osDisk": _disk(spec, name)},
            "osProfile": _system(spec, name),
            "networkProfile": {"networkApiVersion": _NETWORK_API},
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
            **_market(spec),
        },
        **places.zones(spec.region, spec.zone),
    }
    digest = hashlib.sha256(json.dumps([body, subnet, spec.public_ip, spec.allowed_cidrs], sort_keys=True).encode())
    labels[REQUEST] = digest.hexdigest()[:32]
    made_before = firewall.plan(spec, name, labels)
    interface = _interface(spec, name, labels, subnet)
    if made_before:
        interface["properties"]["networkSecurityGroup"] = {
            "id": f"{group}/providers/Microsoft.Network/networkSecurityGroups/{made_before[firewall.PART]['name']}"
        }
    body["properties"]["networkProfile"]["networkInterfaceConfigurations"] = [interface]
    return {"name": name, "vm": body | {"tags": labels}, **made_before}


def _image(image: str) -> dict[str, str]:
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def _disk(spec: LaunchSpec, name: str) -> dict[str, Any]:
    return {
        "name": names.os_disk(name),
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "caching": "ReadWrite",
        "diskSizeGB": max(spec.disk_gib, spec.image.disk_gib),
        "managedDisk": {"storageAccountType": _PREMIUM_DISK},
    }


def _system(spec: LaunchSpec, name: str) -> dict[str, Any]:
    path = f"/home/{USER}/.ssh/authorized_keys"
    keys = [{"path": path, "keyData": key} for key in userdata.login_keys(spec)]
    return {
        "computerName": name,
        "adminUsername": USER,
        "customData": userdata.packed(spec),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "provisionVMAgent": True,
            "ssh": {"publicKeys": keys},
        },
    }


def _market(spec: LaunchSpec) -> dict[str, Any]:
    """A highest price of −1 is the on-demand price: such a VM is never evicted for its price."""
    if spec.market is Market.ON_DEMAND:
        return {}
    return {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}


def _interface(spec: LaunchSpec, name: str, labels: dict[str, str], subnet: str) -> dict[str, Any]:
    configuration: dict[str, Any] = {"primary": True, "subnet": {"id": subnet}}
    if spec.public_ip:
        configuration["publicIPAddressConfiguration"] = {
            "name": names.address(name),
            "sku": {"name": "Standard", "tier": "Regional"},
            "tags": labels,
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    properties = {
        "primary": True,
        "deleteOption": "Delete",
        "ipConfigurations": [{"name": "primary", "properties": configuration}],
    }
    return {"name": names.interface(name), "tags": labels, "properties": properties}
