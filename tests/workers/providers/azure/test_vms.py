"""What Azure's records mean."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.leases import VmState
from app.domain.offerings import Market
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.azure import vms
from workers.providers.azure.vms import Addresses

VM_ID = "0AAAAAAA-0000-4000-8000-000000000000"


def vm(provisioning: str = "Succeeded", **properties: Any) -> dict[str, Any]:
    return {
        "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/gpulease-0",
        "name": "gpulease-0",
        "location": "EastUS",
        "zones": ["2"],
        "tags": owner().as_tags() | {"gpulease-token": "t"},
        "properties": {
            "vmId": VM_ID,
            "provisioningState": provisioning,
            "timeCreated": "2026-11-20T12:34:56.1234567+00:00",
            "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"},
            **properties,
        },
    }


def view(*codes: str, message: str | None = None) -> dict[str, Any]:
    time = "2026-11-20T13:00:00+00:00"
    return {"statuses": [{"code": code, "displayStatus": code, "message": message, "time": time} for code in codes]}


@pytest.mark.parametrize(
    ("provisioning", "codes", "state"),
    [
        ("Creating", [], VmState.PENDING),
        ("Creating", ["ProvisioningState/creating"], VmState.PENDING),
        ("Creating", ["ProvisioningState/creating", "PowerState/starting"], VmState.PENDING),
        ("Creating", ["PowerState/running"], VmState.RUNNING),
        ("Succeeded", ["ProvisioningState/succeeded", "PowerState/running"], VmState.RUNNING),
        ("Updating", ["ProvisioningState/updating", "PowerState/running"], VmState.RUNNING),
        ("Updating", ["PowerState/stopping"], VmState.PENDING),
        ("Succeeded", ["PowerState/stopped"], VmState.STOPPED),
        ("Updating", ["PowerState/deallocating"], VmState.ENDING),
        ("Succeeded", ["PowerState/deallocated"], VmState.STOPPED),
        ("Succeeded", ["PowerState/unknown"], VmState.PENDING),
        ("Deleting", ["PowerState/running"], VmState.ENDING),
        ("Deleting", [], VmState.ENDING),
        ("Creating", ["ProvisioningState/creating", "PowerState/stopped"], VmState.PENDING),
        ("Creating", ["PowerState/deallocated"], VmState.PENDING),
        ("Updating", ["PowerState/stopped"], VmState.PENDING),
        ("Failed", ["ProvisioningState/failed/AllocationFailed"], VmState.STOPPED),
        ("Failed", ["ProvisioningState/failed/OSProvisioningClientError"], VmState.PENDING),
        ("Failed", ["ProvisioningState/failed/VMExtensionProvisioningError"], VmState.PENDING),
        ("Failed", ["ProvisioningState/failed/AllocationFailed", "PowerState/running"], VmState.RUNNING),
        ("Failed", [], VmState.PENDING),
        ("Failed", ["ProvisioningState/failed/VMExtensionProvisioningError", "PowerState/running"], VmState.RUNNING),
        ("Failed", ["ProvisioningState/failed/InternalExecutionError", "PowerState/stopped"], VmState.STOPPED),
    ],
)
def test_provisioning_and_power_together_make_the_state(provisioning: str, codes: list[str], state: VmState) -> None:
    assert vms.from_document(vm(provisioning), view(*codes)).state is state


@pytest.mark.parametrize(
    ("code", "message", "refusal"),
    [
        ("AllocationFailed", "none left", errors.InsufficientCapacity),
        ("ZonalAllocationFailed", "none left", errors.InsufficientCapacity),
        ("OverconstrainedZonalAllocationRequest", "none left", errors.InsufficientCapacity),
        ("SkuNotAvailable", "not here", errors.NotOffered),
        (
            "OperationNotAllowed",
            "exceeding approved standardNCASv3_T4 Family Cores quota",
            errors.ProviderQuotaExceeded,
        ),
        ("InternalExecutionError", "try again", errors.Refused),
        ("InternalOperationError", "try again", errors.Refused),
        ("NetworkingInternalOperationError", "try again", errors.Refused),
        ("InternalDiskManagementError", "try again", errors.Refused),
    ],
)
def test_a_vm_that_was_never_made_says_why(code: str, message: str, refusal: type[errors.Refused] | None) -> None:
    failed = vms.from_document(vm("Failed"), view(f"ProvisioningState/failed/{code}", message=message))
    assert failed.refusal is refusal
    assert failed.state_reason == {"code": code, "message": message}
    assert not failed.interrupted


def test_a_refused_launch_that_also_shows_a_power_state_is_a_refusal_and_no_eviction() -> None:
    spot = vm("Failed", priority="Spot", evictionPolicy="Deallocate")
    stopped = vms.from_document(spot, view("ProvisioningState/failed/AllocationFailed", "PowerState/deallocated"))
    assert (stopped.state, stopped.refusal) == (VmState.STOPPED, errors.InsufficientCapacity)
    assert not stopped.interrupted
    assert stopped.state_reason is not None
    assert stopped.state_reason["code"] == "AllocationFailed"


def test_a_spot_vm_that_is_being_created_is_not_evicted() -> None:
    spot = vm("Creating", priority="Spot", evictionPolicy="Deallocate")
    starting = vms.from_document(spot, view("PowerState/deallocated"))
    assert (starting.state, starting.interrupted) == (VmState.PENDING, False)


def test_identity_place_and_times_are_azures_own() -> None:
    seen = vms.from_document(vm(priority="Spot"), view("PowerState/running"), Addresses("198.51.100.1", "10.0.0.4"))
    assert seen.id == f"gpulease-0:{VM_ID.lower()}"
    assert (seen.region, seen.zone, seen.market, seen.launch_identity) == (
        "eastus",
        "eastus-2",
        Market.SPOT,
        "gpulease-0",
    )
    assert seen.launched_at == datetime(2026, 11, 20, 12, 34, 56, 123456, tzinfo=UTC)
    assert (seen.public_ip, seen.private_ip, seen.ended_at) == ("198.51.100.1", "10.0.0.4", None)
    regional = {**vm(), "zones": None}
    assert vms.from_document(regional, None).zone == "eastus"


def test_a_stopped_vm_tells_since_when_and_shows_no_address() -> None:
    seen = vms.from_document(vm(), view("PowerState/stopped"), Addresses("198.51.100.1", "10.0.0.4"))
    assert seen.ended_at == datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
    assert (seen.public_ip, seen.private_ip) == (None, None)
    assert seen.state_reason == {"code": "PowerState/stopped", "message": "PowerState/stopped"}


def test_a_vm_being_deleted_gives_no_reason_so_that_an_earlier_one_stays() -> None:
    assert vms.from_document(vm("Deleting"), view("PowerState/running")).state_reason is None


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"code": "ProvisioningState/succeeded", "displayStatus": "Ready"}, True),
        ({"code": "ProvisioningState/Unavailable", "displayStatus": "Not Ready"}, False),
    ],
)
def test_only_an_agent_that_says_so_is_ready(status: dict[str, str], ready: bool) -> None:
    assert vms.agent_is_ready({"vmAgent": {"statuses": [status]}}) is ready
    assert not vms.agent_is_ready({})


@pytest.mark.parametrize("missing", ["name", "location", "properties"])
def test_a_record_without_its_parts_is_not_azures(missing: str) -> None:
    with pytest.raises(errors.OutcomeUnknown, match="not one of Azure's"):
        vms.from_document({key: value for key, value in vm().items() if key != missing}, None)


@pytest.mark.parametrize(
    ("policy", "provisioning", "power", "evicted"),
    [
        ("Deallocate", "Updating", "deallocating", True),
        ("Deallocate", "Succeeded", "deallocated", True),
        ("Deallocate", "Succeeded", "stopped", False),
        ("Deallocate", "Deleting", "deallocated", False),
        ("Deallocate", "Succeeded", "running", False),
        ("Delete", "Succeeded", "deallocated", False),
    ],
)
def test_a_spot_vm_that_is_deallocated_was_evicted(
    policy: str, provisioning: str, power: str, *, evicted: bool
) -> None:
    """Azure deletes a VM with the policy Delete: somebody else has deallocated it."""
    spot = vm(provisioning, priority="Spot", evictionPolicy=policy)
    assert vms.from_document(spot, view(f"PowerState/{power}")).interrupted is evicted
    assert not vms.from_document(vm(provisioning), view(f"PowerState/{power}")).interrupted
