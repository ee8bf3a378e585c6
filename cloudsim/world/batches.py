"""Several VMs of one launch: all that there is room for, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from cloudsim.world.core import World
from cloudsim.world.create_requests import Order
from cloudsim.world.entities import Vm
from cloudsim.world.errors import CapacityExhausted
from cloudsim.world.faults import Fault, FaultMode

T = TypeVar("T")


def replayed(world: World, orders: Sequence[Order]) -> list[Vm]:
    """The VMs that an earlier launch with the same token made; none for a new token.

    Raises TokenMismatch, TokenTerminated.
    """
    return [vm for vm in map(world.replay, orders) if vm is not None]


def room(world: World, orders: Sequence[Order], *, least: int, fault: Fault | None = None) -> int:
    """How many of the orders can start, in one zone. `fault`: of the call; PARTIAL sets the most.

    Raises QuotaExceeded when the quota does not cover all of them, and what `World.launch` raises for fewer than `least`.
    """
    first, most = orders[0], len(orders)
    counted = world.machine(first.provider, first.instance_type).counted * most
    world.quotas.check(world.quota_key(first), counted, world.settings.default_quota_vcpus)
    if fault is not None and fault.mode is FaultMode.PARTIAL:
        most = min(most, fault.count)
    slots = world.room(first, most)
    if slots < least:
        raise CapacityExhausted(first.instance_type, first.zones)
    return slots


def launch(world: World, orders: Sequence[Order]) -> list[Vm]:
    """Starts all of them in one zone, in this order. The caller has checked that there is room."""
    vms: list[Vm] = []
    for order in orders:
        vms.append(world.launch(order, zone=vms[0].zone if vms else None))
    return vms


def answered(items: Sequence[T], fault: Fault | None) -> list[T]:
    """The items in the order of the answer. The fault SHUFFLE changes it."""
    return list(reversed(items)) if fault is not None and fault.mode is FaultMode.SHUFFLE else list(items)
