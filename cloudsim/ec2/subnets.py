"""Whether a subnet takes another VM: its usual state, or what a test has set."""

from __future__ import annotations

from cloudsim.ec2 import default_vpc
from cloudsim.ec2.call import Call
from cloudsim.ec2.catalog import PROVIDER


def is_open(call: Call, subnet: str) -> bool:
    """Whether a subnet is in state `available`."""
    return call.world.restrictions.is_open(PROVIDER, subnet)


def free_addresses(call: Call, subnet: str) -> int:
    """How many addresses a subnet has left."""
    usual = default_vpc.free_addresses(call.account, call.region, subnet)
    return call.world.restrictions.free_addresses(PROVIDER, subnet, usual)
