"""Proximity placement groups, availability sets and application security groups, and what VMs in them must respect."""

from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.arm.conftest import CREATE, GROUP, Arm, body
from tests.cloudsim.clock import ManualClock

NEAR = "Microsoft.Compute/proximityPlacementGroups/near"
SET = "Microsoft.Compute/availabilitySets/set"
MEMBERS = "Microsoft.Network/applicationSecurityGroups/members"
VM = "Microsoft.Compute/virtualMachines/vm"


def reference(path: str) -> dict[str, str]:
    return {"id": f"{GROUP}/{path}"}


@pytest.fixture
def placed(arm: Arm) -> dict[str, Any]:
    """The properties of a VM in a set, both of which are in one proximity placement group."""
    near = {"location": "eastus", "properties": {"proximityPlacementGroupType": "Standard"}}
    held = {
        "location": "eastus",
        "sku": {"name": "Aligned"},
        "properties": {"proximityPlacementGroup": reference(NEAR)},
    }
    assert arm.call("PUT", NEAR, near).status_code == 201
    assert arm.call("PUT", SET, held).status_code == 200
    return {"proximityPlacementGroup": reference(NEAR), "availabilitySet": reference(SET)}


def in_placement(properties: dict[str, Any], **changes: Any) -> dict[str, Any]:
    document = body()
    document.pop("zones", None)
    return {**document, **changes, "properties": {**document["properties"], **properties}}


def test_a_vm_in_a_set_has_no_zone_and_is_shown_by_both(arm: Arm, placed: dict[str, Any]) -> None:
    arm.refused("BadRequest", 400, "PUT", VM, in_placement(placed, zones=["1"]), **CREATE)
    spot = {"priority": "Spot", "evictionPolicy": "Deallocate"}
    arm.refused("BadRequest", 400, "PUT", VM, in_placement({**placed, **spot}), **CREATE)
    alone = {"availabilitySet": placed["availabilitySet"]}
    arm.refused("BadRequest", 400, "PUT", VM, in_placement(alone), **CREATE)
    made = arm.call("PUT", VM, in_placement(placed), **CREATE)
    assert made.status_code == 201, made.text
    for path in (NEAR, SET):
        assert arm.get(path)["properties"]["virtualMachines"] == [reference(VM)]


def test_what_is_used_stays(arm: Arm, placed: dict[str, Any], clock: ManualClock) -> None:
    arm.call("PUT", VM, in_placement(placed), **CREATE)
    for path in (SET, NEAR):
        arm.refused("OperationNotAllowed", 409, "DELETE", path)
    arm.call("DELETE", VM)
    clock.forward(3600)
    arm.refused("OperationNotAllowed", 409, "DELETE", NEAR)
    assert arm.call("DELETE", SET).status_code == 200
    assert arm.call("DELETE", NEAR).status_code == 200
    arm.refused("ResourceNotFound", 404, "GET", NEAR)


def test_a_vm_needs_what_exists_in_its_region(arm: Arm) -> None:
    arm.refused(
        "InvalidResourceReference",
        400,
        "PUT",
        VM,
        in_placement({"proximityPlacementGroup": reference(NEAR)}),
        **CREATE,
    )
    arm.call("PUT", NEAR, {"location": "westeurope", "properties": {}})
    arm.refused("BadRequest", 400, "PUT", VM, in_placement({"proximityPlacementGroup": reference(NEAR)}), **CREATE)
    arm.refused("InvalidResourceLocation", 409, "PUT", NEAR, {"location": "eastus", "properties": {}})


def test_no_room_close_to_the_others_is_told_later(arm: Arm, sim: Control, placed: dict[str, Any]) -> None:
    sim.settings(placement_group_capacity=1)
    for name in ("one", "two"):
        arm.call("PUT", f"Microsoft.Compute/virtualMachines/{name}", in_placement(placed), **CREATE)
    states = {vm["name"]: vm["state"] for vm in sim.instances(provider="azure")}
    assert (states["one"], states["two"]) == ("pending", "failed")


def test_a_rule_keeps_its_application_security_group(arm: Arm) -> None:
    arm.call("PUT", MEMBERS, {"location": "eastus", "properties": {}})
    allowed = {"priority": 110, "access": "Allow", "direction": "Inbound", "protocol": "*", "destinationPortRange": "*"}
    rule = {"name": "members", "properties": {**allowed, "sourceApplicationSecurityGroups": [reference(MEMBERS)]}}
    group = "Microsoft.Network/networkSecurityGroups/group"
    arm.call("PUT", group, {"location": "eastus", "properties": {"securityRules": [rule]}})
    arm.refused("OperationNotAllowed", 409, "DELETE", MEMBERS)
    arm.call("DELETE", group)
    assert arm.call("DELETE", MEMBERS).status_code == 202
