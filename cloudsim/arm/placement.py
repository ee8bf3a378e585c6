"""What VMs of a group share: application security groups, proximity placement groups and availability sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cloudsim.arm.call import Call, Document
from cloudsim.arm.errors import ArmError
from cloudsim.world import Market, Resource, ResourceKind, World

_SET, _NEAR = "availabilitySet", "proximityPlacementGroup"
_ALIGNED = "Aligned"
"""The kind of availability set that takes VMs with managed disks."""


def spec_of(call: Call, kind: ResourceKind) -> dict[str, Any]:
    """What is kept of the body of a PUT. Raises ArmError."""
    if kind is not ResourceKind.AVAILABILITY_SET:
        return {}
    near = ((call.body.get("properties") or {}).get(_NEAR) or {}).get("id")
    if near is not None:
        require(call, near)
    return {"sku": (call.body.get("sku") or {}).get("name", "Classic"), "near": near}


def require(call: Call, resource_id: str) -> Resource:
    """Raises ArmError InvalidResourceReference for what does not exist."""
    found = call.world.resources.get(resource_id)
    if found is None:
        raise ArmError("InvalidResourceReference", f"Resource {resource_id} referenced was not found.")
    return found


def of_vm(call: Call, properties: Document, market: Market) -> list[str]:
    """Ids of what places the VM: its proximity placement group and its availability set. Raises ArmError."""
    wanted = {kind: (properties.get(kind) or {}).get("id") for kind in (_NEAR, _SET)}
    found = {kind: require(call, one) for kind, one in wanted.items() if one is not None}
    region = str(call.body["location"]).lower()
    for one in found.values():
        if one.region != region:
            raise ArmError("BadRequest", f"{one.id} is not in the location of the virtual machine.")
    if _SET in found:
        _check_set(call, properties, market, found[_SET])
    if "capacityReservation" in properties and found:
        raise ArmError("BadRequest", "A capacity reservation and a placement of this kind exclude each other here.")
    return [one.id for one in found.values()]


def _check_set(call: Call, properties: Document, market: Market, chosen: Resource) -> None:
    if call.body.get("zones"):
        raise ArmError("BadRequest", "A virtual machine in an availability set cannot have zones.")
    if market is Market.SPOT:
        raise ArmError("BadRequest", "Azure Spot Virtual Machine is not supported in Availability Set.")
    if chosen.spec["sku"] != _ALIGNED:
        raise ArmError("BadRequest", "Managed disks need an availability set of the sku Aligned.")
    if chosen.spec["near"] != (properties.get(_NEAR) or {}).get("id"):
        raise ArmError("BadRequest", "VM and availability set must have the same proximity placement group.")


def is_held(world: World, one: Resource) -> bool:
    """Whether anything uses it, so that Azure does not delete it."""
    if any(vm.alive and one.id in vm.spec.get("placed", ()) for vm in world.vms.values()):
        return True
    return any(other.spec.get("near") == one.id or one.id in _named(other) for other in world.resources.values())


def _named(one: Resource) -> Iterator[str]:
    yield from one.spec.get("members") or ()
    for rule in one.spec.get("rules") or ():
        for end in ("source", "destination"):
            yield from (group["id"] for group in rule["properties"].get(f"{end}ApplicationSecurityGroups") or ())
