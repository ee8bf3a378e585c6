"""RunInstances: the VMs of one call, all in one zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cloudsim.ec2 import placement_groups, views
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER, QUOTA_NAMES
from cloudsim.ec2.create_requests import read_order
from cloudsim.ec2.disks import late_refusal
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.instances import refuse_dry_run
from cloudsim.ec2.reservations import unusable
from cloudsim.ec2.spot import check_price
from cloudsim.ec2.subnets import free_addresses, is_open
from cloudsim.world import (
    CapacityExhausted,
    Market,
    Order,
    QuotaExceeded,
    ReservationFull,
    ReservationUnusable,
    TokenMismatch,
    TokenTerminated,
    Vm,
    batches,
)


def launched_vms(params: Mapping[str, Any]) -> int:
    """How many VMs a call requests: EC2 counts them against the rate of launched resources."""
    return max(1, int(params.get("MaxCount", 1)))


def run_instances(call: Call) -> Result:
    """Launch up to MaxCount VMs, or answer those that the same client token launched."""
    code = call.world.restrictions.launch_code(PROVIDER, call.account)
    if code is not None:
        raise AwsError(code, "The account may launch no instance at present.")
    orders = _orders(call, read_order(call))
    vms = _launch(call, orders)
    return views.reservation(call.world, *batches.answered(vms, call.change))


def _orders(call: Call, order: Order) -> list[Order]:
    """One order for each VM. What EC2 numbers has an id of its own in each."""
    return [order, *(_another(call, order, slot) for slot in range(1, call.params["MaxCount"]))]


def _another(call: Call, order: Order, slot: int) -> Order:
    spot = {**order.spec["spot"], "id": f"sir-{call.world.hex(8)}"}
    attachment = f"eni-attach-{call.world.hex(17)}"
    return replace(
        order,
        id=f"i-{call.world.hex(17)}",
        slot=slot,
        disks=tuple(replace(disk, id=f"vol-{call.world.hex(17)}") for disk in order.disks),
        nics=tuple(
            replace(nic, id=f"eni-{call.world.hex(17)}", spec={**nic.spec, "attachment": attachment})
            for nic in order.nics
        ),
        spec={**order.spec, "spot": spot, "launch_index": slot},
    )


def _launch(call: Call, orders: Sequence[Order]) -> list[Vm]:
    try:
        return _replay_or_launch(call, orders)
    except TokenMismatch:
        raise AwsError(
            "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
        ) from None
    except TokenTerminated:
        raise AwsError(
            "IdempotentInstanceTerminated", "The client token was used for an instance that is terminated."
        ) from None
    except ReservationUnusable as error:
        raise unusable(error) from None
    except ReservationFull as full:
        reservation_id = full.reservation.rpartition("/")[2]
        raise AwsError(
            "ReservationCapacityExceeded",
            f"The requested reservation {reservation_id} does not have sufficient capacity.",
        ) from None
    except CapacityExhausted as exhausted:
        raise _no_capacity(exhausted) from None
    except QuotaExceeded as exceeded:
        raise _over_quota(orders[0], exceeded) from None


def _replay_or_launch(call: Call, orders: Sequence[Order]) -> list[Vm]:
    vms = batches.replayed(call.world, orders)
    least, addresses = call.params["MinCount"], len(orders)
    if not vms:
        check_price(call, orders[0])
        placement_groups.check(call, orders[0])
        addresses = _addresses(call, orders[0], least)
    refuse_dry_run(call)
    code = late_refusal(call, orders) if not vms else None
    if code is not None:
        return [call.world.refuse(order, code) for order in orders]
    if not vms:
        room = min(addresses, batches.room(call.world, orders, least=least, fault=call.change))
        vms = batches.launch(call.world, orders[:room])
    return vms


def _addresses(call: Call, order: Order, least: int) -> int:
    """Free addresses of the subnet with the most. EC2 refuses VMs in a subnet that is closed or has too few left."""
    subnets = [str(order.spec_by_zone[zone]["subnet"]) for zone in order.zones]
    most = max(free_addresses(call, subnet) if is_open(call, subnet) else 0 for subnet in subnets)
    if most < least:
        raise AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnets[0]}' to satisfy the requested number of instances.",
        )
    return most


def _no_capacity(exhausted: CapacityExhausted) -> AwsError:
    return AwsError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {exhausted.instance_type} capacity in the Availability Zone you "
        f"requested ({', '.join(exhausted.zones)}). Our system will be working on provisioning additional capacity.",
    )


def _over_quota(order: Order, exceeded: QuotaExceeded) -> AwsError:
    if order.market is Market.SPOT:
        return AwsError("MaxSpotInstanceCountExceeded", f"Max spot instance count exceeded ({exceeded.code})")
    return AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {exceeded.limit} allows for the "
        f"instance bucket that the specified instance type belongs to ({QUOTA_NAMES[exceeded.code]}).",
    )
