"""The subscription's state and its registrations."""

import pytest

from cloudsim.testing import Control
from tests.cloudsim.arm.conftest import CREATE, SUBSCRIPTION, Arm, body
from tests.cloudsim.clock import ManualClock

ROOT = f"/subscriptions/{SUBSCRIPTION}"
VM = "Microsoft.Compute/virtualMachines/vm"
FEATURE = f"{ROOT}/providers/Microsoft.Features/providers/Microsoft.Compute/features/UseStandardSecurityType"
COMPUTE = f"{ROOT}/providers/Microsoft.Compute"


@pytest.mark.parametrize("state", ["Warned", "Disabled", "Deleted"])
def test_a_disabled_subscription_is_read_only_and_its_vms_are_stopped(
    arm: Arm, sim: Control, clock: ManualClock, state: str
) -> None:
    arm.launch()
    clock.forward(2)
    sim.subscription(state)
    assert arm.get(ROOT)["state"] == state
    arm.refused("ReadOnlyDisabledSubscription", 409, "DELETE", VM)
    arm.refused("ReadOnlyDisabledSubscription", 409, "PATCH", VM, {"tags": {}})
    arm.refused("ReadOnlyDisabledSubscription", 409, "PUT", f"{VM}2", body(), **CREATE)
    codes = [status["code"] for status in arm.get(f"{VM}/instanceView")["statuses"]]
    assert codes == ["ProvisioningState/failed/VMStoppedToWarnSubscription", "PowerState/stopped"]
    sim.subscription()
    assert arm.call("DELETE", VM).status_code == 202


def test_an_overdue_payment_forbids_nothing(arm: Arm, sim: Control) -> None:
    sim.subscription("PastDue")
    arm.launch()


@pytest.mark.parametrize("namespace", ["Microsoft.Compute", "Microsoft.Network"])
def test_a_vm_needs_the_registration_of_both_resource_providers(arm: Arm, sim: Control, namespace: str) -> None:
    path = f"{ROOT}/providers/{namespace}"
    assert arm.get(path)["registrationState"] == "Registered"
    sim.subscription(unregistered=[namespace])
    assert arm.get(path)["registrationState"] == "NotRegistered"
    message = arm.refused("MissingSubscriptionRegistration", 409, "PUT", VM, body(), **CREATE)
    assert f"'{namespace}'" in message


def test_the_security_type_standard_needs_its_feature(arm: Arm, sim: Control) -> None:
    standard = body()
    standard["properties"]["securityProfile"] = {"securityType": "Standard"}
    assert arm.get(FEATURE)["properties"]["state"] == "Registered"
    sim.subscription(unregistered=["Microsoft.Compute/UseStandardSecurityType"])
    assert arm.get(FEATURE)["properties"]["state"] == "NotRegistered"
    assert "UseStandardSecurityType" in arm.refused("BadRequest", 400, "PUT", VM, standard, **CREATE)
    assert arm.call("PUT", VM, body(), **CREATE).status_code == 201, "without a security type"
