"""Capacity reservation groups, each with one member of its own name."""

from __future__ import annotations

from cloudsim.arm.call import COMPUTE, Answer, Call, Document
from cloudsim.arm.catalog import PROVIDER
from cloudsim.arm.errors import ArmError, not_found
from cloudsim.world import Reservation

GROUPS = f"{COMPUTE}/capacityReservationGroups"


def _find(call: Call, name: str) -> Reservation | None:
    return call.world.reservations.get(f"{PROVIDER}/{call.subscription}/{name}")


def _named(call: Call) -> Reservation:
    reservation = _find(call, call.name)
    if reservation is None:
        raise not_found(GROUPS, call.name, call.group)
    return reservation


def target(call: Call, properties: Document) -> str | None:
    """The key of the reservation that a VM names. Raises ArmError for one that does not exist."""
    group = (properties.get("capacityReservation") or {}).get("capacityReservationGroup")
    if group is None:
        return None
    reservation = _find(call, str(group["id"]).rpartition("/")[2])
    if reservation is None:
        raise ArmError("InvalidResourceReference", f"Resource {group['id']} referenced was not found.")
    return reservation.key


def get(call: Call) -> Answer:
    """The group; `$expand=instanceView` shows what is allocated."""
    reservation = _named(call)
    document: Document = {"name": reservation.id, "id": call.id_of(GROUPS, reservation.id), "type": GROUPS}
    properties: Document = {"capacityReservations": [{"id": f"{document['id']}/capacityReservations/{reservation.id}"}]}
    if call.query.get("$expand", "").lower() == "instanceview":
        used = [{"id": vm.id} for vm in call.world.vms.values() if vm.alive and vm.reservation == reservation.key]
        utilization = {"currentCapacity": reservation.total, "virtualMachinesAllocated": used}
        properties["instanceView"] = {
            "capacityReservations": [{"name": reservation.id, "utilizationInfo": utilization}]
        }
    return Answer(document | {"location": reservation.region, "properties": properties})


def members(call: Call) -> Answer:
    """The members of the group: one."""
    reservation = _named(call)
    number = reservation.zone.removeprefix(f"{reservation.region}-")
    member: Document = {
        "name": reservation.id,
        "id": f"{call.id_of(GROUPS, reservation.id)}/capacityReservations/{reservation.id}",
        "location": reservation.region,
        "sku": {"name": reservation.instance_type, "capacity": reservation.total},
        "properties": {"provisioningState": "Succeeded"},
    }
    return Answer({"value": [member | ({"zones": [number]} if reservation.zone != reservation.region else {})]})
