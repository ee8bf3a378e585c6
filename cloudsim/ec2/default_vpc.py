"""Each account's default VPC, subnets and security group: derived from account and place, never stored."""

from __future__ import annotations

import hashlib
from functools import cache

from cloudsim.ec2.catalog import REGIONS

DEFAULT, SECOND, FULL = "default", "second", "full"
FREE_ADDRESSES = {DEFAULT: 4_091, SECOND: 8_187, FULL: 0}
"""Of the three subnets that each zone has."""


@cache
def _stable_id(prefix: str, *parts: str) -> str:
    return f"{prefix}-{hashlib.sha256('/'.join((prefix, *parts)).encode()).hexdigest()[:17]}"


def vpc_id(account: str, region: str) -> str:
    """The default VPC."""
    return _stable_id("vpc", account, region)


def subnet_id(account: str, zone: str, kind: str = DEFAULT) -> str:
    """The subnet of one kind in a zone."""
    return _stable_id("subnet", account, zone, *([kind] if kind != DEFAULT else []))


def default_group_id(account: str, region: str) -> str:
    """The default VPC's default security group."""
    return _stable_id("sg", account, region)


def subnets(account: str, region: str) -> dict[str, tuple[str, str]]:
    """(zone, kind) of each of the account's subnets in a region, by id."""
    return {subnet_id(account, zone, kind): (zone, kind) for zone in REGIONS[region] for kind in FREE_ADDRESSES}


def zone_of_subnet(account: str, region: str, subnet: str) -> str | None:
    """The zone of one of the account's subnets."""
    zone, _ = subnets(account, region).get(subnet, (None, None))
    return zone


def free_addresses(account: str, region: str, subnet: str) -> int:
    """How many addresses a subnet has at first."""
    _, kind = subnets(account, region).get(subnet, (None, DEFAULT))
    return FREE_ADDRESSES[kind]


def cidr(zone: str, kind: str = DEFAULT) -> str:
    """The address block of a subnet."""
    block = 16 * (ord(zone[-1]) - ord("a"))
    return {
        DEFAULT: f"172.31.{block}.0/20",
        SECOND: f"172.30.{2 * block}.0/19",
        FULL: f"172.29.{block}.0/28",
    }[kind]
