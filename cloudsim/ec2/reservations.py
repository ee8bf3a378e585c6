"""Capacity reservations and capacity blocks: what DescribeCapacityReservations shows, and which one a launch targets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.facts import PROVIDER
from cloudsim.ec2.paging import page
from cloudsim.world import Reservation, ReservationUnusable

BLOCK = "capacity-block"
_DEFAULT = "default"
_ID = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")


def target(call: Call) -> Reservation | None:
    """The reservation that a launch names. Raises AwsError for one that is not there, or that needs another market."""
    specification: Mapping[str, Any] = call.params.get("CapacityReservationSpecification", {})
    market = call.params.get("InstanceMarketOptions", {}).get("MarketType")
    wanted = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId")
    if wanted is None:
        if market == BLOCK:
            raise AwsError("MissingParameter", "A launch in a Capacity Block needs the id of a Capacity Reservation")
        return None
    reservation = _find(call, wanted)
    if (reservation.kind == BLOCK) != (market == BLOCK):
        raise bad_value(market, "InstanceMarketOptions.MarketType", f"{wanted} is a {reservation.kind} reservation.")
    if call.params.get("Placement", {}).get("GroupName"):
        raise AwsError("InsufficientInstanceCapacity", "The placement group has no capacity in the reservation.")
    return reservation


def _find(call: Call, wanted: str) -> Reservation:
    if not _ID.fullmatch(wanted):
        raise AwsError("InvalidCapacityReservationId.Malformed", f"Invalid id: '{wanted}'")
    found = call.world.reservations.get(f"{PROVIDER}/{call.account}/{wanted}")
    if found is None or found.region != call.region:
        raise AwsError("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{wanted}' does not exist")
    return found


def unusable(error: ReservationUnusable) -> AwsError:
    """EC2's answer to a launch in a reservation that does not fit or is not active."""
    wanted = error.reservation.rpartition("/")[2]
    if error.code == "mismatch":
        return AwsError("InvalidParameterValue", f"The launch does not match the attributes of {wanted}")
    return AwsError("InvalidCapacityReservationState", f"The capacity reservation {wanted} is not active")


def shown(reservation: Reservation | None) -> dict[str, Any]:
    """What an instance shows of its reservation."""
    if reservation is None:
        return {}
    lifecycle = {"InstanceLifecycle": BLOCK} if reservation.kind == BLOCK else {}
    return {
        "CapacityReservationId": reservation.id,
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": reservation.id},
        },
        **lifecycle,
    }


def describe_capacity_reservations(call: Call) -> Result:
    """The account's reservations of the region, by id where ids are given."""
    mine = [
        one
        for one in call.world.reservations.values()
        if (one.provider, one.account, one.region) == (PROVIDER, call.account, call.region)
    ]
    wanted = call.params.get("CapacityReservationIds")
    chosen = [_find(call, one) for one in wanted] if wanted else mine
    found, token = page(chosen, lambda one: one.id, call)
    return {"CapacityReservations": [_reservation(call, one) for one in found], "NextToken": token}


def _reservation(call: Call, one: Reservation) -> dict[str, Any]:
    return {
        "CapacityReservationId": one.id,
        "OwnerId": one.account,
        "InstanceType": one.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": one.zone,
        "Tenancy": "default",
        "TotalInstanceCount": one.total,
        "AvailableInstanceCount": call.world.free_machines(one),
        "State": _state(one, call.now),
        "StartDate": one.starts_at,
        "EndDate": one.ends_at,
        "EndDateType": "unlimited" if one.ends_at is None else "limited",
        "InstanceMatchCriteria": "targeted",
        "CreateDate": 0.0,
        "ReservationType": BLOCK if one.kind == BLOCK else _DEFAULT,
    }


def _state(one: Reservation, now: float) -> str:
    if one.cancelled:
        return "cancelled"
    if one.starts_at is not None and now < one.starts_at:
        return "scheduled"
    return "active" if one.is_active(now) else "expired"
