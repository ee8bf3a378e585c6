"""Virtual machines from the PUT to the end, as Resource Manager shows them."""

from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.arm.conftest import CREATE, GROUP, SUBSCRIPTION, Arm, body
from tests.cloudsim.clock import ManualClock

VM = "Microsoft.Compute/virtualMachines/vm"
VIEW = f"{VM}?$expand=instanceView&api-version=2026-04-01"
AZURE = {"provider": "azure"}


def codes(arm: Arm) -> list[str]:
    return [one["code"] for one in arm.get(f"{VM}/instanceView")["statuses"]]


def test_a_vm_comes_up_in_steps(arm: Arm, clock: ManualClock) -> None:
    made = arm.launch()
    assert made["properties"]["provisioningState"] == "Creating"
    assert codes(arm) == ["ProvisioningState/creating", "PowerState/stopped"]
    clock.forward(0.2)
    assert codes(arm) == ["ProvisioningState/creating", "PowerState/starting"]
    clock.forward(0.3)
    assert codes(arm) == ["ProvisioningState/creating", "PowerState/running"]
    view = arm.get(VIEW)["properties"]["instanceView"]
    assert view["vmAgent"]["statuses"][0]["displayStatus"] == "Not Ready"
    clock.forward(1)
    ready = arm.get(VIEW)["properties"]
    assert ready["provisioningState"] == "Succeeded"
    assert ready["instanceView"]["vmAgent"]["statuses"][0]["displayStatus"] == "Ready"
    assert ready["vmId"] == made["properties"]["vmId"]


def test_a_spot_vm_shows_for_a_moment_that_it_is_deallocated(arm: Arm) -> None:
    spot = body()
    spot["properties"] |= {"priority": "Spot", "evictionPolicy": "Deallocate"}
    assert arm.call("PUT", VM, spot, **CREATE).status_code == 201
    assert codes(arm) == ["ProvisioningState/creating", "PowerState/deallocated"]


def test_an_update_takes_a_moment_and_its_failure_stays_until_the_next_one(
    arm: Arm, sim: Control, clock: ManualClock
) -> None:
    arm.launch()
    clock.forward(2)
    sim.fault("VirtualMachines.Update", "fail_after", **AZURE)
    assert arm.call("PATCH", VM, {"tags": {"a": "b"}}).json()["properties"]["provisioningState"] == "Updating"
    assert codes(arm) == ["ProvisioningState/updating", "PowerState/running"]
    clock.forward(1)
    assert arm.get(VM)["properties"]["provisioningState"] == "Failed"
    assert codes(arm) == ["ProvisioningState/failed/InternalOperationError", "PowerState/running"]
    assert arm.call("PATCH", VM, {"tags": {}}).status_code == 200
    clock.forward(1)
    assert codes(arm) == ["ProvisioningState/succeeded", "PowerState/running"]


def test_a_listing_of_statuses_lacks_power_states_on_request(arm: Arm, sim: Control, clock: ManualClock) -> None:
    arm.launch()
    clock.forward(2)
    listing = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/virtualMachines"
    sim.fault("VirtualMachines.ListAll", "incomplete", **AZURE)
    shown = [
        [
            status["code"]
            for vm in arm.items(f"{listing}?statusOnly=true&api-version=2026-04-01")
            for status in vm["properties"]["instanceView"]["statuses"]
        ]
        for _ in range(2)
    ]
    assert shown == [["ProvisioningState/succeeded"], ["ProvisioningState/succeeded", "PowerState/running"]]


def test_a_change_soon_after_an_accepted_one_is_refused(arm: Arm, sim: Control, clock: ManualClock) -> None:
    sim.settings(busy_seconds=5.0)
    arm.launch()
    arm.refused("AnotherOperationInProgress", 409, "DELETE", VM)
    arm.refused("AnotherOperationInProgress", 409, "PATCH", VM, {"tags": {}})
    clock.forward(6)
    assert arm.call("PATCH", VM, {"tags": {}}).status_code == 200
    arm.refused("AnotherOperationInProgress", 409, "DELETE", VM)
    clock.forward(6)
    assert arm.call("DELETE", VM).status_code == 202


def test_an_interface_stays_reserved_for_its_vm_for_a_while(arm: Arm, sim: Control, clock: ManualClock) -> None:
    sim.settings(nic_reserved_seconds=180.0)
    arm.launch(kept=True)
    assert arm.call("DELETE", VM).status_code == 202
    clock.forward(10)
    (nic,) = arm.items("Microsoft.Network/networkInterfaces")
    arm.refused("NicReservedForAnotherVm", 400, "DELETE", nic["id"])
    clock.forward(180)
    assert arm.call("DELETE", nic["id"]).status_code == 202
    assert arm.items("Microsoft.Network/networkInterfaces") == []


def test_the_quota_of_the_region_holds_beside_that_of_the_family(arm: Arm, sim: Control) -> None:
    sim.quota("cores", 6, provider="azure")
    arm.launch()
    assert "(cores) quota" in arm.refused("OperationNotAllowed", 409, "PUT", f"{VM}2", body(), **CREATE)
    spot = body()
    spot["properties"] |= {"priority": "Spot", "evictionPolicy": "Deallocate"}
    assert arm.call("PUT", f"{VM}3", spot, **CREATE).status_code == 201
    usages = arm.items(f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/eastus/usages")
    counted = {one["name"]["value"]: one["currentValue"] for one in usages}
    assert (counted["cores"], counted["lowPriorityCores"], counted["Standard NCASv3_T4 Family"]) == (4, 4, 4)


def test_a_new_size_boots_no_image_of_the_first_hypervisor_generation(arm: Arm) -> None:
    wish = body("Standard_ND96isr_H100_v5") | {"zones": ["2"]}
    image = f"{GROUP}/Microsoft.Compute/images/ours"
    wish["properties"]["storageProfile"]["imageReference"] = {"id": f"{image}-gen1"}
    assert "Hypervisor Generation '1'" in arm.refused("BadRequest", 400, "PUT", VM, wish, **CREATE)
    wish["properties"]["storageProfile"]["imageReference"] = {"id": image}
    assert arm.call("PUT", VM, wish, **CREATE).status_code == 201


def test_custom_data_is_never_shown_again(arm: Arm) -> None:
    assert "customData" not in arm.launch()["properties"]["osProfile"]
    assert "customData" not in str(arm.get(VIEW))


def test_the_operation_tells_how_the_creation_goes_on(arm: Arm, clock: ManualClock) -> None:
    answer = arm.call("PUT", VM, body(), **CREATE)
    path = answer.headers["Azure-AsyncOperation"].partition("/subscriptions")[2]
    assert arm.get(f"/subscriptions{path}")["status"] == "InProgress"
    clock.forward(2)
    assert arm.get(f"/subscriptions{path}")["status"] == "Succeeded"


def test_a_name_in_use_is_a_failed_precondition_until_its_vm_has_gone(arm: Arm, clock: ManualClock) -> None:
    first = arm.launch()
    arm.refused("PreconditionFailed", 412, "PUT", VM, body(), **CREATE)
    arm.refused("PropertyChangeNotAllowed", 409, "PUT", VM, body())
    assert arm.call("DELETE", VM).status_code == 202
    arm.refused("PreconditionFailed", 412, "PUT", VM, body(), **CREATE)
    assert arm.get(VM)["properties"]["provisioningState"] == "Deleting"
    clock.forward(1)
    arm.refused("ResourceNotFound", 404, "GET", VM)
    assert arm.call("DELETE", VM).status_code == 204
    assert arm.launch()["properties"]["vmId"] != first["properties"]["vmId"]


def test_no_capacity_shows_after_the_vm_was_accepted_and_everything_stays(
    arm: Arm, sim: Control, clock: ManualClock
) -> None:
    sim.settings(refusal_seconds=2.0)
    sim.capacity(0, provider="azure", zone="eastus-1")
    answer = arm.call("PUT", VM, body(), **CREATE)
    assert answer.status_code == 201
    assert arm.get(VM)["properties"]["provisioningState"] == "Creating"
    clock.forward(3)
    assert arm.get(VM)["properties"]["provisioningState"] == "Failed"
    assert codes(arm) == ["ProvisioningState/failed/ZonalAllocationFailed"]
    operation = answer.headers["Azure-AsyncOperation"].partition("/subscriptions")[2]
    assert arm.get(f"/subscriptions{operation}")["error"]["code"] == "ZonalAllocationFailed"
    clock.forward(1_000)
    assert {one["kind"] for one in sim.resources(**AZURE)} == {"volume", "network_interface", "address"}
    assert arm.call("DELETE", VM).status_code == 202
    clock.forward(1)
    assert sim.resources(**AZURE) == []


def test_a_region_without_zone_has_its_own_word_for_no_capacity(arm: Arm, sim: Control, clock: ManualClock) -> None:
    sim.capacity(0, provider="azure", region="eastus")
    arm.launch(size="Standard_ND96asr_v4", zones=[])
    assert codes(arm) == ["ProvisioningState/failed/AllocationFailed"]


def test_what_is_over_the_quota_is_refused_at_once_and_says_which(arm: Arm, sim: Control) -> None:
    sim.quota("Standard NCASv3_T4 Family", 4, provider="azure")
    arm.launch()
    message = arm.refused("OperationNotAllowed", 409, "PUT", f"{VM}2", body(), **CREATE)
    assert "Standard NCASv3_T4 Family" in message
    assert "quota" in message
    assert [one["name"] for one in sim.instances(**AZURE)] == ["vm"]


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"size": "Standard_D4s_v5"}, "InvalidParameter", 400),
        ({"size": "Standard_ND96isr_H200_v5"}, "SkuNotAvailable", 409),
        ({"zones": ["1", "2"]}, "InvalidParameter", 400),
        ({"zones": ["9"]}, "SkuNotAvailable", 409),
        ({"location": "atlantis"}, "LocationNotAvailableForResourceType", 400),
        ({"tags": {f"k{n}": "" for n in range(51)}}, "InvalidTags", 400),
        ({"tags": {"a": "1", "A": "2"}}, "InvalidTags", 400),
        ({"identity": {"type": "UserAssigned", "userAssignedIdentities": {"/x": {}}}}, "FailedIdentityOperation", 400),
        ({"tags": {"a/b": "1"}}, "InvalidTagNameCharacters", 400),
        ({"properties": {}}, "InvalidParameter", 400),
    ],
)
def test_what_azure_would_not_take_is_refused(
    arm: Arm, sim: Control, changes: dict[str, Any], code: str, status: int
) -> None:
    arm.refused(code, status, "PUT", VM, body(**changes), **CREATE)
    assert sim.resources(**AZURE) == []


def test_an_image_a_subnet_and_a_group_must_exist(arm: Arm) -> None:
    for path, value, code, status in (
        (("storageProfile", "imageReference", "version"), "1.2.3", "PlatformImageNotFound", 404),
        (("storageProfile", "osDisk", "managedDisk"), {"diskEncryptionSet": {"id": "/x"}}, "InvalidResourceReference", 400),
        (("storageProfile", "dataDisks"), [{"lun": 0, "createOption": "Empty"}], "InvalidParameter", 400),
        (("networkProfile", "networkInterfaceConfigurations", 0, "properties", "networkSecurityGroup"), {"id": "/x"}, "InvalidResourceReference", 400),
    ):  # fmt: skip
        wanted = body()
        inner: Any = wanted["properties"]
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        arm.refused(code, status, "PUT", VM, wanted, **CREATE)


def test_what_shall_outlive_the_vm_does_and_can_be_deleted_then(arm: Arm, sim: Control, clock: ManualClock) -> None:
    arm.launch(kept=True)
    things = [one["id"] for one in sim.resources(**AZURE)]
    assert len(things) == 3
    held = {arm.call("DELETE", one).json()["error"]["code"] for one in things}
    assert held == {"NicInUse", "PublicIPAddressCannotBeDeleted", "OperationNotAllowed"}
    arm.call("DELETE", VM)
    clock.forward(1)
    assert {one["instance_id"] for one in sim.resources(**AZURE)} == {None}
    for status in (202, 204):
        assert {arm.call("DELETE", one).status_code for one in things} == {status}
    assert sim.resources(**AZURE) == []


def test_a_disk_gets_the_tags_of_its_vm_once_and_everything_else_its_own(arm: Arm, sim: Control) -> None:
    arm.launch()
    assert {one["kind"]: one["tags"]["a"] for one in sim.resources(**AZURE)} == {
        "volume": "vm",
        "network_interface": "nic",
        "address": "ip",
    }
    assert arm.call("PATCH", VM, {"tags": {"b": "2"}}).json()["tags"] == {"b": "2"}
    (disk,) = arm.items("Microsoft.Compute/disks")
    assert disk["tags"] == {"a": "vm"}
    arm.refused("InvalidParameter", 400, "PATCH", VM, {"properties": {}})


def test_an_eviction_deletes_the_vm_and_leaves_no_word_of_it(arm: Arm, sim: Control, clock: ManualClock) -> None:
    spot = body()
    spot["properties"] |= {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}
    made = arm.call("PUT", VM, spot, **CREATE).json()
    clock.forward(2)
    sim.interrupt(made["properties"]["vmId"], 30, provider="azure")
    assert arm.get(VM)["properties"]["provisioningState"] == "Succeeded"
    clock.forward(30)
    assert arm.get(VM)["properties"]["provisioningState"] == "Deleting"
    clock.forward(1)
    arm.refused("ResourceNotFound", 404, "GET", VM)
    assert sim.resources(**AZURE) == []


def test_an_evicted_vm_may_stay_deallocated_with_all_that_belongs_to_it(
    arm: Arm, sim: Control, clock: ManualClock
) -> None:
    spot = body()
    spot["properties"] |= {"priority": "Spot", "evictionPolicy": "Deallocate", "billingProfile": {"maxPrice": -1}}
    made = arm.call("PUT", VM, spot, **CREATE).json()
    clock.forward(2)
    sim.interrupt(made["properties"]["vmId"], 30, provider="azure")
    clock.forward(30)
    assert (power(arm), arm.get(VM)["properties"]["provisioningState"]) == ("deallocating", "Updating")
    clock.forward(1)
    assert (power(arm), arm.get(VM)["properties"]["provisioningState"]) == ("deallocated", "Succeeded")
    assert len(sim.resources(**AZURE)) == 3
    clock.forward(3600)
    assert power(arm) == "deallocated"
    assert arm.call("DELETE", VM).status_code == 202
    assert arm.get(VM)["properties"]["provisioningState"] == "Deleting"
    clock.forward(1)
    arm.refused("ResourceNotFound", 404, "GET", VM)
    assert sim.resources(**AZURE) == []


def test_a_vm_that_is_being_deallocated_can_be_deleted(arm: Arm, sim: Control, clock: ManualClock) -> None:
    spot = body()
    spot["properties"] |= {"priority": "Spot", "evictionPolicy": "Deallocate", "billingProfile": {"maxPrice": -1}}
    made = arm.call("PUT", VM, spot, **CREATE).json()
    clock.forward(2)
    sim.interrupt(made["properties"]["vmId"], 0, provider="azure")
    assert power(arm) == "deallocating"
    assert arm.call("DELETE", VM).status_code == 202
    clock.forward(1)
    arm.refused("ResourceNotFound", 404, "GET", VM)


def power(arm: Arm) -> str:
    """The power state in the instance view."""
    codes: list[str] = [one["code"] for one in arm.get(f"{VM}/instanceView?api-version=2026-04-01")["statuses"]]
    return next(code for code in codes if code.startswith("PowerState/")).removeprefix("PowerState/")


def test_only_a_running_vm_restarts(arm: Arm, clock: ManualClock) -> None:
    arm.launch()
    arm.refused("OperationNotAllowed", 409, "POST", f"{VM}/restart")
    clock.forward(2)
    assert arm.call("POST", f"{VM}/restart").status_code == 202


def test_addresses_are_found_from_the_vm_on(arm: Arm) -> None:
    vm = arm.launch()
    (reference,) = vm["properties"]["networkProfile"]["networkInterfaces"]
    nic = arm.get(f"{reference['id']}?$expand=ipConfigurations/publicIPAddress&api-version=2026-03-01")
    assert nic["properties"]["virtualMachine"]["id"] == vm["id"]
    (configuration,) = nic["properties"]["ipConfigurations"]
    assert configuration["properties"]["publicIPAddress"]["properties"]["ipAddress"].startswith("198.18.")
    (address,) = arm.items("Microsoft.Network/publicIPAddresses")
    assert address["properties"]["ipConfiguration"]["id"] == configuration["id"]


def test_a_listing_of_statuses_has_no_tags_and_all_others_no_statuses(arm: Arm) -> None:
    arm.launch()
    root = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute"
    (status,) = arm.items(f"{root}/virtualMachines?statusOnly=true&api-version=2026-04-01")
    assert "tags" not in status
    assert status["properties"]["instanceView"]["statuses"][1]["code"] == "PowerState/stopped"
    for path in (
        "Microsoft.Compute/virtualMachines",
        f"{root}/virtualMachines",
        f"{root}/locations/eastus/virtualMachines",
    ):
        (vm,) = arm.items(path)
        assert (vm["tags"], "instanceView" in vm["properties"]) == ({"a": "vm"}, False)
    assert arm.items(f"{root}/locations/westeurope/virtualMachines") == []


def test_pages_lead_to_one_another(arm: Arm, sim: Control) -> None:
    sim.plant(provider="azure", region="eastus", instance_type="Standard_NC4as_T4_v3", count=450)
    page = arm.get("Microsoft.Compute/virtualMachines")
    sizes = [len(page["value"])]
    names = {one["name"] for one in page["value"]}
    while "nextLink" in page:
        page = arm.get(page["nextLink"].partition(sim.url)[2])
        sizes.append(len(page["value"]))
        names |= {one["name"] for one in page["value"]}
    assert sizes == [200, 200, 50]
    assert len(names) == 450


def test_a_group_is_seen_in_use_through_the_interface(arm: Arm, clock: ManualClock) -> None:
    group = "Microsoft.Network/networkSecurityGroups/g"
    rule = {"priority": 100, "access": "Allow", "direction": "Inbound", "protocol": "Tcp", "destinationPortRange": "22"}
    wanted = {"location": "eastus", "properties": {"securityRules": [{"name": "ssh", "properties": rule}]}}
    assert arm.call("PUT", group, wanted).status_code == 201
    assert arm.call("PUT", group, wanted).status_code == 200
    arm.refused(
        "InvalidRequestFormat", 400, "PUT", group, {"location": "eastus", "properties": {"securityRules": [{}]}}
    )
    vm = body()
    (nic,) = vm["properties"]["networkProfile"]["networkInterfaceConfigurations"]
    nic["properties"]["networkSecurityGroup"] = {"id": f"{GROUP}/{group}"}
    arm.call("PUT", VM, vm, **CREATE)
    assert len(arm.get(group)["properties"]["networkInterfaces"]) == 1
    arm.refused("InUseNetworkSecurityGroupCannotBeDeleted", 400, "DELETE", group)
    arm.call("DELETE", VM)
    clock.forward(1)
    assert arm.call("DELETE", group).status_code == 202


def test_a_lock_refuses_the_end_of_a_vm_and_of_what_belongs_to_it(arm: Arm, sim: Control, clock: ManualClock) -> None:
    arm.launch(kept=True)
    (vm,) = sim.instances(**AZURE)
    (disk,) = (one["id"] for one in sim.resources(**AZURE) if one["kind"] in {"disk", "volume"})
    for one in (vm["id"], disk):
        sim.protect(one, provider="azure")
    message = arm.refused("ScopeLocked", 409, "DELETE", VM)
    assert "cannot perform delete operation because following scope(s) are locked" in message
    sim.protect(vm["id"], provider="azure", protected=False)
    assert arm.call("DELETE", VM).status_code == 202
    clock.forward(1)
    arm.refused("ScopeLocked", 409, "DELETE", disk)
    assert disk in {one["id"] for one in sim.resources(**AZURE)}
