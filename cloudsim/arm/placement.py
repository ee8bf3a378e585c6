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
    named = call.world.resources.get(resource_id)
    if named is None:
        raise ArmError("InvalidResourceReference", f"Resource {resource_id} referenced was not found.")
    return named


def of_vm(call: Call, properties: Document, market: Market) -> list[str]:
    """Ids of what places the VM: its proximity placement group and its availability set. Raises ArmError."""
    ids = {kind: (properties.get(kind) or {}).get("id") for kind in (_NEAR, _SET)}
    named = {kind: require(call, named_id) for kind, named_id in ids.items() if named_id is not None}
    region = str(call.body["location"]).lower()
    for placed in named.values():
        if placed.region != region:
            raise ArmError("BadRequest", f"{placed.id} is not in the location of the virtual machine.")
    if _SET in named:
        _check_set(call, properties, market, named[_SET])
    if "capacityReservation" in properties and named:
        raise ArmError("BadRequest", "A capacity reservation and a placement of this kind exclude each other here.")
    return [placed.id for placed in named.values()]


def _check_set(call: Call, properties: Document, market: Market, chosen: Resource) -> None:
    if call.body.get("zones"):
        raise ArmError("BadRequest", "A virtual machine in an availability set cannot have zones.")
    if market is Market.SPOT:
        raise ArmError("BadRequest", "Azure Spot Virtual Machine is not supported in Availability Set.")
    if chosen.spec["sku"] != _ALIGNED:
        raise ArmError("BadRequest", "Managed disks need an availability set of the sku Aligned.")
    if chosen.spec["near"] != (properties.get(_NEAR) or {}).get("id"):
        raise ArmError("BadRequest", "VM and availability set must have the same proximity placement group.")


def is_held(world: World, thing: Resource) -> bool:
    """Whether anything uses it, so that Azure does not delete it."""
    if any(vm.alive and thing.id in vm.spec.get("placed", ()) for vm in world.vms.values()):
        return True
    return any(other.spec.get("near") == thing.id or thing.id in _named(other) for other in world.resources.values())


def _named(thing: Resource) -> Iterator[str]:
    yield from thing.spec.get("members") or ()
    for rule in thing.spec.get("rules") or ():
        for end in ("source", "destination"):
            yield from (group["id"] for group in rule["properties"].get(f"{end}ApplicationSecurityGroups") or ())
