"""Inbound rules as EC2 tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.workers.providers.contract import Inbound

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


def firewalls(ec2: "EC2Client", vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """By id of the security group."""
    return {group["GroupId"]: list(_rules(group["IpPermissions"])) for group in _groups(ec2, vm_id)}


def reaches(ec2: "EC2Client", source: str, target: str) -> bool:
    """Whether a group that `gpulease` made for VMs opens all of `target` to a group of `source`."""
    theirs = {group["GroupId"] for group in _groups(ec2, source)}
    return any(
        rule["IpProtocol"] == "-1" and pair["GroupId"] in theirs
        for group in _groups(ec2, target)
        if group["GroupName"] != "default"
        for rule in group["IpPermissions"]
        for pair in rule["UserIdGroupPairs"]
    )


def placement_group(ec2: "EC2Client", vm_id: str) -> str | None:
    return _instance(ec2, vm_id)["Placement"].get("GroupName") or None


def _instance(ec2: "EC2Client", vm_id: str) -> Any:
    (reservation,) = ec2.describe_instances(InstanceIds=[vm_id])["Reservations"]
    (instance,) = reservation["Instances"]
    return instance


def _groups(ec2: "EC2Client", vm_id: str) -> Any:
    ids = [group["GroupId"] for group in _instance(ec2, vm_id)["NetworkInterfaces"][0]["Groups"]]
    return ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"]


def _rules(permissions: Sequence[Any]) -> Iterator[Inbound]:
    for one in permissions:
        networks = [ranges["CidrIp"] for ranges in one["IpRanges"]]
        networks += [ranges["CidrIpv6"] for ranges in one["Ipv6Ranges"]]
        for network in networks:
            yield one["IpProtocol"], one["FromPort"], one["ToPort"], network
