"""Default VPCs and their subnets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2 import default_vpc
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.offerings import zone_id
from cloudsim.ec2.paging import page
from cloudsim.ec2.subnets import free_addresses, is_open

Item = dict[str, Any]
Field = Callable[[Item], str | Iterable[str] | None]
_VPC_FIELDS: dict[str, Field] = {
    "is-default": lambda item: str(item["IsDefault"]).lower(),
    "isDefault": lambda item: str(item["IsDefault"]).lower(),
    "state": lambda item: item["State"],
    "vpc-id": lambda item: item["VpcId"],
}


def _no_tags(_: Item) -> dict[str, str]:
    return {}


def describe_vpcs(call: Call) -> Result:
    """The region's default VPC."""
    vpc = default_vpc.vpc_id(call.account, call.region)
    item = {
        "VpcId": vpc,
        "CidrBlock": "172.31.0.0/16",
        "InstanceTenancy": "default",
        "IsDefault": True,
        "OwnerId": call.account,
        "State": "available",
        "Tags": [],
    }
    unknown = [vpc_id for vpc_id in call.params.get("VpcIds", []) if vpc_id != vpc]
    if unknown:
        raise AwsError("InvalidVpcID.NotFound", f"The vpc ID '{unknown[0]}' does not exist")
    matches = compiled(call.params.get("Filters", []), _VPC_FIELDS, _no_tags)
    return {"Vpcs": [item] if matches(item) else []}


_SUBNET_FIELDS: dict[str, Field] = {
    "availability-zone": lambda item: item["AvailabilityZone"],
    "availabilityZone": lambda item: item["AvailabilityZone"],
    "default-for-az": lambda item: str(item["DefaultForAz"]).lower(),
    "defaultForAz": lambda item: str(item["DefaultForAz"]).lower(),
    "state": lambda item: item["State"],
    "subnet-id": lambda item: item["SubnetId"],
    "vpc-id": lambda item: item["VpcId"],
}


def describe_subnets(call: Call) -> Result:
    """The subnets of every zone."""
    subnets = default_vpc.subnets(call.account, call.region)
    ids = call.params.get("SubnetIds") or list(subnets)
    unknown = [subnet for subnet in ids if subnet not in subnets]
    if unknown:
        raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{unknown[0]}' does not exist")
    matches = compiled(call.params.get("Filters", []), _SUBNET_FIELDS, _no_tags)
    items = [_subnet(call, subnet, *subnets[subnet]) for subnet in ids]
    page_items, token = page(filter(matches, items), _in_order, call)
    return {"Subnets": page_items, "NextToken": token}


def _in_order(subnet: Item) -> str:
    return f"{subnet['AvailabilityZone']}/{not subnet['DefaultForAz']:d}/{subnet['SubnetId']}"


def _subnet(call: Call, subnet: str, zone: str, kind: str) -> Item:
    default = kind == default_vpc.DEFAULT
    return {
        "SubnetId": subnet,
        "SubnetArn": f"arn:aws:ec2:{call.region}:{call.account}:subnet/{subnet}",
        "AvailabilityZone": zone,
        "AvailabilityZoneId": zone_id(zone),
        "AvailableIpAddressCount": free_addresses(call, subnet),
        "CidrBlock": default_vpc.cidr(zone, kind),
        "DefaultForAz": default,
        "MapPublicIpOnLaunch": default,
        "OwnerId": call.account,
        "State": "available" if is_open(call, subnet) else "unavailable",
        "VpcId": default_vpc.vpc_id(call.account, call.region),
        "Tags": [],
    }
