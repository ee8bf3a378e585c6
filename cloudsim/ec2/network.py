"""Each account's default VPC, subnets and security group: derived from account and place, never stored."""

from __future__ import annotations

import hashlib
from functools import cache

from cloudsim.ec2.facts import REGIONS


@cache
def _stable_id(prefix: str, *parts: str) -> str:
    return f"{prefix}-{hashlib.sha256('/'.join((prefix, *parts)).encode()).hexdigest()[:17]}"


def vpc_id(account: str, region: str) -> str:
    """The default VPC."""
    return _stable_id("vpc", account, region)


def subnet_id(account: str, zone: str) -> str:
    """The zone's default subnet."""
    return _stable_id("subnet", account, zone)


def default_group_id(account: str, region: str) -> str:
    """The default VPC's default security group."""
    return _stable_id("sg", account, region)


def zone_of_subnet(account: str, region: str, subnet: str) -> str | None:
    """The zone of one of the account's subnets."""
    return next((zone for zone in REGIONS[region] if subnet_id(account, zone) == subnet), None)


def cidr(zone: str) -> str:
    """The address block of the zone's default subnet."""
    return f"172.31.{16 * (ord(zone[-1]) - ord('a'))}.0/20"
