"""Network interfaces and elastic IP addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2 import default_vpc
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.instances import refuse_dry_run
from cloudsim.ec2.lookup import named
from cloudsim.ec2.paging import page
from cloudsim.ec2.tag_rules import read_tags
from cloudsim.ec2.views import mac_address, tag_list
from cloudsim.world import Resource, ResourceKind


def group_ids(nic: Resource) -> list[str]:
    """Security groups that the interface is in."""
    return [group["GroupId"] for group in nic.spec["groups"]]


def _status(nic: Resource) -> str:
    return "in-use" if nic.vm_id else "available"


_FIELDS: dict[str, Callable[[Resource], str | Iterable[str] | None]] = {
    "attachment.instance-id": lambda nic: nic.vm_id,
    "availability-zone": lambda nic: nic.zone,
    "group-id": group_ids,
    "network-interface-id": lambda nic: nic.id,
    "status": _status,
}


def describe_network_interfaces(call: Call) -> Result:
    """Network interfaces by id and filter."""
    nics = named(call, ResourceKind.NETWORK_INTERFACE, call.params.get("NetworkInterfaceIds"))
    matches = compiled(call.params.get("Filters", []), _FIELDS, lambda nic: nic.tags)
    page_items, token = page(filter(matches, nics), lambda nic: nic.id, call)
    return {"NetworkInterfaces": [_interface(call, nic) for nic in page_items], "NextToken": token}


def _interface(call: Call, nic: Resource) -> dict[str, Any]:
    return {
        "NetworkInterfaceId": nic.id,
        "AvailabilityZone": nic.zone,
        "Description": "",
        "InterfaceType": nic.spec.get("type", "interface"),
        "MacAddress": mac_address(nic.id),
        "OwnerId": nic.account,
        "RequesterManaged": False,
        "SourceDestCheck": True,
        "Status": _status(nic),
        "SubnetId": nic.spec.get("subnet") or default_vpc.subnet_id(nic.account, nic.zone),
        "VpcId": default_vpc.vpc_id(nic.account, nic.region),
        "TagSet": tag_list(nic.tags),
        **_attachment(call, nic),
    }


def _attachment(call: Call, nic: Resource) -> dict[str, Any]:
    vm = call.world.vms.get(nic.vm_id) if nic.vm_id else None
    if vm is None:
        return {"Groups": nic.spec["groups"]}
    return {
        "Attachment": {
            "AttachTime": nic.created_at,
            "AttachmentId": nic.spec["attachment"],
            "DeleteOnTermination": nic.delete_with_vm,
            "DeviceIndex": nic.spec["device_index"],
            "NetworkCardIndex": nic.spec.get("card", 0),
            "InstanceId": vm.id,
            "InstanceOwnerId": vm.account,
            "Status": "attached",
        },
        "Groups": nic.spec["groups"],
        "PrivateIpAddress": vm.private_ip,
    }


def delete_network_interface(call: Call) -> Result:
    """Delete an interface that nothing is attached to."""
    (nic,) = named(call, ResourceKind.NETWORK_INTERFACE, [call.params["NetworkInterfaceId"]])
    if nic.vm_id is not None or nic.spec.get("protected"):
        raise AwsError("InvalidParameterValue", f"Network interface '{nic.id}' is currently in use.")
    refuse_dry_run(call)
    call.world.remove_resource(nic.id)
    return {}


_ADDRESS_FIELDS: dict[str, Callable[[Resource], str | Iterable[str] | None]] = {
    "allocation-id": lambda address: address.id,
    "public-ip": lambda address: address.spec["ip"],
}


def describe_addresses(call: Call) -> Result:
    """Elastic addresses; EC2 does not page them."""
    addresses = named(call, ResourceKind.ADDRESS, call.params.get("AllocationIds"))
    matches = compiled(call.params.get("Filters", []), _ADDRESS_FIELDS, lambda address: address.tags)
    return {"Addresses": [_address(address) for address in addresses if matches(address)]}


def _address(address: Resource) -> dict[str, Any]:
    return {
        "AllocationId": address.id,
        "PublicIp": address.spec["ip"],
        "Domain": "vpc",
        "NetworkBorderGroup": address.region,
        "PublicIpv4Pool": "amazon",
        "Tags": tag_list(address.tags),
    }


def allocate_address(call: Call) -> Result:
    """A new elastic address; it bills until it is released."""
    tags: dict[str, str] = {}
    for specification in call.params.get("TagSpecifications", []):
        tags.update(read_tags(specification.get("Tags", [])))
    refuse_dry_run(call)
    address = Resource(
        kind=ResourceKind.ADDRESS,
        provider=PROVIDER,
        account=call.account,
        region=call.region,
        zone="",
        id=f"eipalloc-{call.world.hex(17)}",
        tags=tags,
        created_at=call.now,
        spec={"ip": f"198.19.{call.world.rng.randrange(256)}.{call.world.rng.randrange(1, 255)}"},
    )
    call.world.add_resource(address)
    return {key: value for key, value in _address(address).items() if key != "Tags"}


def release_address(call: Call) -> Result:
    """Give an elastic address back."""
    if "AllocationId" not in call.params:
        raise AwsError("MissingParameter", "The request must contain the parameter AllocationId")
    (address,) = named(call, ResourceKind.ADDRESS, [call.params["AllocationId"]])
    if address.spec.get("protected"):
        raise AwsError("InvalidIPAddress.InUse", f"Address {address.spec['ip']} is in use.")
    refuse_dry_run(call)
    call.world.remove_resource(address.id)
    return {}
