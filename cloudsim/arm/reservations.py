"""Capacity reservation groups, each with one member of its own name."""

from __future__ import annotations

from cloudsim.arm.call import COMPUTE, Answer, Call, Document
from cloudsim.arm.errors import ArmError, not_found
from cloudsim.arm.facts import PROVIDER
from cloudsim.world import Reservation

GROUPS = f"{COMPUTE}/capacityReservationGroups"


def _find(call: Call, name: str) -> Reservation | None:
    return call.world.reservations.get(f"{PROVIDER}/{call.subscription}/{name}")


def _named(call: Call) -> Reservation:
    found = _find(call, call.name)
    if found is None:
        raise not_found(GROUPS, call.name, call.group)
    return found


def target(call: Call, properties: Document) -> str | None:
    """The key of the reservation that a VM names. Raises ArmError for one that does not exist."""
    group = (properties.get("capacityReservation") or {}).get("capacityReservationGroup")
    if group is None:
        return None
    found = _find(call, str(group["id"]).rpartition("/")[2])
    if found is None:
        raise ArmError("InvalidResourceReference", f"Resource {group['id']} referenced was not found.")
    return found.key


def get(call: Call) -> Answer:
    """The group; `$expand=instanceView` shows what is allocated."""
    found = _named(call)
    document: Document = {"name": found.id, "id": call.id_of(GROUPS, found.id), "type": GROUPS}
    properties: Document = {"capacityReservations": [{"id": f"{document['id']}/capacityReservations/{found.id}"}]}
    if call.query.get("$expand", "").lower() == "instanceview":
        used = [{"id": vm.id} for vm in call.world.vms.values() if vm.alive and vm.reservation == found.key]
        utilization = {"currentCapacity": found.total, "virtualMachinesAllocated": used}
        properties["instanceView"] = {"capacityReservations": [{"name": found.id, "utilizationInfo": utilization}]}
    return Answer(document | {"location": found.region, "properties": properties})


def members(call: Call) -> Answer:
    """The members of the group: one."""
    found = _named(call)
    number = found.zone.removeprefix(f"{found.region}-")
    member: Document = {
        "name": found.id,
        "id": f"{call.id_of(GROUPS, found.id)}/capacityReservations/{found.id}",
        "location": found.region,
        "sku": {"name": found.instance_type, "capacity": found.total},
        "properties": {"provisioningState": "Succeeded"},
    }
    return Answer({"value": [member | ({"zones": [number]} if found.zone != found.region else {})]})
