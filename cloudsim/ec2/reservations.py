"""Capacity reservations and capacity blocks: what DescribeCapacityReservations shows, and which one a launch targets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.paging import page
from cloudsim.world import Reservation, ReservationUnusable

BLOCK = "capacity-block"
_DEFAULT = "default"
_ID = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")


def target(call: Call) -> Reservation | None:
    """The reservation that a launch names. Raises AwsError for one that is not there, or that needs another market."""
    specification: Mapping[str, Any] = call.params.get("CapacityReservationSpecification", {})
    market = call.params.get("InstanceMarketOptions", {}).get("MarketType")
    reservation_id = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId")
    if reservation_id is None:
        if market == BLOCK:
            raise AwsError("MissingParameter", "A launch in a Capacity Block needs the id of a Capacity Reservation")
        return None
    reservation = _find(call, reservation_id)
    if (reservation.kind == BLOCK) != (market == BLOCK):
        raise bad_value(
            market, "InstanceMarketOptions.MarketType", f"{reservation_id} is a {reservation.kind} reservation."
        )
    if call.params.get("Placement", {}).get("GroupName"):
        raise AwsError("InsufficientInstanceCapacity", "The placement group has no capacity in the reservation.")
    return reservation


def _find(call: Call, reservation_id: str) -> Reservation:
    if not _ID.fullmatch(reservation_id):
        raise AwsError("InvalidCapacityReservationId.Malformed", f"Invalid id: '{reservation_id}'")
    reservation = call.world.reservations.get(f"{PROVIDER}/{call.account}/{reservation_id}")
    if reservation is None or reservation.region != call.region:
        raise AwsError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{reservation_id}' does not exist"
        )
    return reservation


def unusable(error: ReservationUnusable) -> AwsError:
    """EC2's answer to a launch in a reservation that does not fit or is not active."""
    reservation_id = error.reservation.rpartition("/")[2]
    if error.code == "mismatch":
        return AwsError("InvalidParameterValue", f"The launch does not match the attributes of {reservation_id}")
    return AwsError("InvalidCapacityReservationState", f"The capacity reservation {reservation_id} is not active")


def placement_view(reservation: Reservation | None) -> dict[str, Any]:
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
        reservation
        for reservation in call.world.reservations.values()
        if (reservation.provider, reservation.account, reservation.region) == (PROVIDER, call.account, call.region)
    ]
    ids = call.params.get("CapacityReservationIds")
    chosen = [_find(call, reservation_id) for reservation_id in ids] if ids else mine
    page_items, token = page(chosen, lambda reservation: reservation.id, call)
    return {"CapacityReservations": [_reservation(call, reservation) for reservation in page_items], "NextToken": token}


def _reservation(call: Call, reservation: Reservation) -> dict[str, Any]:
    return {
        "CapacityReservationId": reservation.id,
        "OwnerId": reservation.account,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": reservation.zone,
        "Tenancy": "default",
        "TotalInstanceCount": reservation.total,
        "AvailableInstanceCount": call.world.free_machines(reservation),
        "State": _state(reservation, call.now),
        "StartDate": reservation.starts_at,
        "EndDate": reservation.ends_at,
        "EndDateType": "unlimited" if reservation.ends_at is None else "limited",
        "InstanceMatchCriteria": "targeted",
        "CreateDate": 0.0,
        "ReservationType": BLOCK if reservation.kind == BLOCK else _DEFAULT,
    }


def _state(reservation: Reservation, now: float) -> str:
    if reservation.cancelled:
        return "cancelled"
    if reservation.starts_at is not None and now < reservation.starts_at:
        return "scheduled"
    return "active" if reservation.is_active(now) else "expired"
