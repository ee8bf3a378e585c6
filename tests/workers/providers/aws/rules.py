"""Inbound rules as EC2 tells them, in the contract's form."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from tests.workers.providers.contract import Inbound

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


def firewalls(ec2: "EC2Client", vm_id: str) -> Mapping[str, Sequence[Inbound]]:
    """By id of the security group."""
    return {group["GroupId"]: list(_rules(group["IpPermissions"])) for group in _groups(ec2, vm_id)}


def open_ports(ec2: "EC2Client", source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
    """Where any group of `target` lets in TCP from `source`, by the address of `source` or by a group of it."""
    sender = _instance(ec2, source)
    theirs, address = set(_group_ids(sender)), ip_address(sender["PrivateIpAddress"])
    rules = [
        rule for group in _groups(ec2, target) for rule in group["IpPermissions"] if _is_from(rule, theirs, address)
    ]
    return tuple(port for port in ports if any(_is_to(rule, port) for rule in rules))


def _is_to(rule: Any, port: int) -> bool:
    protocol = rule["IpProtocol"]
    return bool(protocol == "-1" or (protocol == "tcp" and rule["FromPort"] <= port <= rule["ToPort"]))


def _is_from(rule: Any, groups: set[str], address: IPv4Address | IPv6Address) -> bool:
    networks = [one["CidrIp"] for one in rule["IpRanges"]]
    named = {pair["GroupId"] for pair in rule["UserIdGroupPairs"]}
    return bool(named & groups) or any(address in ip_network(network) for network in networks)


def placement_group(ec2: "EC2Client", vm_id: str) -> str | None:
    return _instance(ec2, vm_id)["Placement"].get("GroupName") or None


def _instance(ec2: "EC2Client", vm_id: str) -> Any:
    (reservation,) = ec2.describe_instances(InstanceIds=[vm_id])["Reservations"]
    (instance,) = reservation["Instances"]
    return instance


def _groups(ec2: "EC2Client", vm_id: str) -> Any:
    return ec2.describe_security_groups(GroupIds=_group_ids(_instance(ec2, vm_id)))["SecurityGroups"]


def _group_ids(instance: Any) -> list[str]:
    return [group["GroupId"] for group in instance["NetworkInterfaces"][0]["Groups"]]


def _rules(permissions: Sequence[Any]) -> Iterator[Inbound]:
    for one in permissions:
        networks = [ranges["CidrIp"] for ranges in one["IpRanges"]]
        networks += [ranges["CidrIpv6"] for ranges in one["Ipv6Ranges"]]
        for network in networks:
            yield one["IpProtocol"], one["FromPort"], one["ToPort"], network
