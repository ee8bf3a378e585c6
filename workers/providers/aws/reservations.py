"""On-Demand Capacity Reservations and Capacity Blocks: what is free in them, and how a launch targets one.

EC2 has no filter on the ids of reservations, and a call with ids fails for one unknown id, so all are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from app.domain.offerings import InstanceType
from app.settings.reservations import ReservationSettings
from workers.providers.aws.calls import pages, part
from workers.providers.aws.settings import CAPACITY_BLOCK
from workers.providers.errors import NotOffered
from workers.providers.types import ObservedReservation

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

BLOCK_ENDS_VMS = timedelta(minutes=30)
"""EC2 begins to terminate the VMs of a Capacity Block so long before its end.

Source: EC2 user guide, "Work with Capacity Blocks".
"""
BLOCK_MARKET = "capacity-block"
"""`ReservationType` of a Capacity Block, and the `MarketType` of a launch in one."""

_ACTIVE, _SCHEDULED = "active", "scheduled"


def observed(
    ec2: "EC2Client", configured: Sequence[ReservationSettings], types: Mapping[str, InstanceType], now: datetime
) -> Iterator[ObservedReservation]:
    """The configured reservations, also those that EC2 does not know. Makes no call without any."""
    if not configured:
        return
    answers = pages(ec2, "describe_capacity_reservations")
    known = {entry["CapacityReservationId"]: entry for page in answers for entry in part(page, "CapacityReservations")}
    for settings in configured:
        kind = types.get(settings.instance_type)
        if kind is not None:
            yield _observed(settings, kind, known.get(settings.id or ""), now)


def _observed(
    settings: ReservationSettings, kind: InstanceType, entry: Mapping[str, Any] | None, now: datetime
) -> ObservedReservation:
    if entry is None:
        problem = f"EC2 shows no capacity reservation {settings.id} in {settings.region}"
        return ObservedReservation(name=settings.name, type=kind, slots=0, free=0, problem=problem)
    starts_at, ends_at = _utc(entry.get("StartDate")), _utc(entry.get("EndDate"))
    is_block = entry.get("ReservationType") == BLOCK_MARKET
    if is_block and ends_at is not None:
        ends_at -= BLOCK_ENDS_VMS
    return ObservedReservation(
        name=settings.name,
        type=kind,
        slots=entry["TotalInstanceCount"],
        free=entry["AvailableInstanceCount"],
        starts_at=starts_at,
        ends_at=ends_at,
        problem=_mismatch(settings, entry, is_block=is_block) or _inactive(entry["State"], starts_at, now),
    )


def _mismatch(settings: ReservationSettings, entry: Mapping[str, Any], *, is_block: bool) -> str | None:
    """What the settings say of the reservation and EC2 does not."""
    if is_block != (settings.kind == CAPACITY_BLOCK):
        return f"EC2 reports {settings.id} as {'a' if is_block else 'no'} Capacity Block: correct its kind"
    theirs = (entry["InstanceType"], entry["AvailabilityZone"])
    if theirs != (settings.instance_type, settings.zone):
        return f"EC2 reports {settings.id} as {theirs[0]} in {theirs[1]}: correct its instance_type and zone"
    return None


def _inactive(state: str, starts_at: datetime | None, now: datetime) -> str | None:
    """A scheduled reservation is usable from its start."""
    waits = state == _SCHEDULED and starts_at is not None and starts_at > now
    return None if state == _ACTIVE or waits else f"EC2 reports its state as {state}"


def launch_arguments(reservation: ReservationSettings | None) -> dict[str, Any]:
    """The arguments of RunInstances that target a reservation. Raises NotOffered for one that is not configured."""
    if reservation is None:
        raise NotOffered("the reservation is no longer configured for the account", code="NoReservation")
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation.id}}
    market = {"InstanceMarketOptions": {"MarketType": BLOCK_MARKET}} if reservation.kind == CAPACITY_BLOCK else {}
    return {"DisableApiTermination": False, "CapacityReservationSpecification": target, **market}


def _utc(time: datetime | None) -> datetime | None:
    return time.astimezone(UTC) if time is not None else None
