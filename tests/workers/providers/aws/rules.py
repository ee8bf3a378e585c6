"""Inbound rules as EC2 tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.workers.providers.contract import Inbound

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


def firewalls(ec2: "EC2Client", vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """By id of the security group."""
    (reservation,) = ec2.describe_instances(InstanceIds=[vm_id])["Reservations"]
    (instance,) = reservation["Instances"]
    ids = [group["GroupId"] for group in instance["NetworkInterfaces"][0]["Groups"]]
    groups = ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"]
    return {group["GroupId"]: list(_rules(group["IpPermissions"])) for group in groups}


def _rules(permissions: Sequence[Any]) -> Iterator[Inbound]:
    for one in permissions:
        networks = [ranges["CidrIp"] for ranges in one["IpRanges"]]
        networks += [ranges["CidrIpv6"] for ranges in one["Ipv6Ranges"]]
        for network in networks:
            yield one["IpProtocol"], one["FromPort"], one["ToPort"], network
