"""Capacity reservation groups: what is free in their members.

A VM names the group; Azure selects the member of its size and zone. Azure also starts VMs beyond the reserved number,
without its promise of capacity and at the usual price. Only gpulease's own count keeps VMs within the reservation.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from azure.core.rest import HttpRequest

from app.domain.offerings import InstanceType
from app.settings.reservations import ReservationSettings
from workers.providers.azure import places
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.common.batch import answered
from workers.providers.errors import NotFound, NotOffered
from workers.providers.types import ObservedReservation

_API = "2026-04-01"
_SUCCEEDED = "Succeeded"


def observed(
    group: Group, configured: Sequence[ReservationSettings], types: Mapping[str, InstanceType]
) -> Iterator[ObservedReservation]:
    """The configured groups, two calls each: the members, and what is allocated in them."""
    known = {settings.name: settings for settings in configured if settings.instance_type in types}

    def read(name: str) -> ObservedReservation:
        return _observed(group, known[name], types[known[name].instance_type])

    yield from answered(known, read).values()


def _observed(group: Group, settings: ReservationSettings, kind: InstanceType) -> ObservedReservation:
    try:
        members = part(_get(group, f"{settings.id}/capacityReservations"), "value")
        view = part(_get(group, str(settings.id), {"$expand": "instanceView"}), "properties", "instanceView")
    except NotFound:
        return _unusable(settings, kind, f"Azure shows no capacity reservation group {settings.id}")
    member = next((entry for entry in members if _matches(entry, settings)), None)
    if member is None:
        return _unusable(settings, kind, f"no member of the group is for {settings.instance_type} in {settings.zone}")
    slots = int(part(member, "sku", "capacity"))
    schedule = part(member, "properties").get("scheduleProfile") or {}
    return ObservedReservation(
        name=settings.name,
        type=kind,
        slots=slots,
        free=max(0, slots - _allocated(view, part(member, "name"))),
        starts_at=_midnight(schedule.get("start")),
        ends_at=_midnight(schedule.get("end")),
        problem=_problem(part(member, "properties")),
    )


def _unusable(settings: ReservationSettings, kind: InstanceType, problem: str) -> ObservedReservation:
    return ObservedReservation(name=settings.name, type=kind, slots=0, free=0, problem=problem)


def _matches(member: Document, settings: ReservationSettings) -> bool:
    zone = places.zone(part(member, "location").lower(), member.get("zones"))
    return (part(member, "sku", "name"), zone) == (settings.instance_type, settings.zone)


def _allocated(view: Document, name: str) -> int:
    """The number of VMs that run in the member, including VMs of others."""
    for entry in view.get("capacityReservations") or ():
        if str(entry.get("name", "")).lower() == name.lower():
            return len((entry.get("utilizationInfo") or {}).get("virtualMachinesAllocated") or ())
    return 0


def _problem(properties: Document) -> str | None:
    state = properties.get("provisioningState", _SUCCEEDED)
    return None if state == _SUCCEEDED else f"Azure reports its state as {state}"


def _midnight(text: str | None) -> datetime | None:
    """A schedule has dates alone. The last day does not count, because the hour of its end is not reported."""
    return None if text is None else datetime.combine(date.fromisoformat(text[:10]), time(), UTC)


def _get(group: Group, path: str, query: Mapping[str, str] | None = None) -> Any:
    request = HttpRequest("GET", path, params={"api-version": _API, **(query or {})})
    with translated():
        answer = group.compute.send_request(request)
        answer.raise_for_status()
        return answer.json()


def launch_members(reservation: ReservationSettings | None) -> dict[str, Any]:
    """The members of a VM that use a reservation. Raises NotOffered for one that is not configured."""
    if reservation is None:
        raise NotOffered("the reservation is no longer configured for the account", code="NoReservation")
    return {"capacityReservation": {"capacityReservationGroup": {"id": reservation.id}}}
