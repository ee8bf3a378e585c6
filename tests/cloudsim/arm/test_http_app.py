"""What every request to Resource Manager meets before any work: credentials, rates, faults, lag; and what outlives a restart."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from cloudsim.arm.catalog import QUOTA_NAMES, REGIONS, catalog
from cloudsim.testing import NO_TLS, Control, running
from tests.cloudsim.arm.conftest import CREATE, SUBSCRIPTION, Arm, body
from tests.cloudsim.clock import ManualClock

VM = "Microsoft.Compute/virtualMachines/vm"
ROOT = f"/subscriptions/{SUBSCRIPTION}"
COMPUTE = f"{ROOT}/providers/Microsoft.Compute"


def test_a_subscription_tells_who_it_is(arm: Arm) -> None:
    assert arm.get(ROOT)["subscriptionId"] == SUBSCRIPTION


@pytest.mark.parametrize("header", ["", "Basic eDp5", "Bearer bad"])
def test_without_a_token_that_it_takes_nobody_is_served(sim: Control, header: str) -> None:
    sim.credentials(bad=["bad"])
    headers = {"Authorization": header} if header else {}
    answer = httpx.get(f"{sim.url}{ROOT}?api-version=2022-12-01", headers=headers, trust_env=False, verify=NO_TLS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "InvalidAuthenticationToken")


def test_a_version_must_be_named_and_a_body_be_json(arm: Arm, sim: Control) -> None:
    arm.refused("MissingApiVersionParameter", 400, "GET", f"{ROOT}?x=y")
    headers = {"Authorization": "Bearer any"}
    url = f"{sim.url}{ROOT}/resourceGroups/g/providers/{VM}?api-version=1"
    for content in (b"{", b"[]"):
        answer = httpx.put(url, content=content, headers=headers, trust_env=False, verify=NO_TLS)
        assert answer.json()["error"]["code"] == "InvalidRequestContent"


def test_reads_are_limited_per_subscription(arm: Arm, sim: Control, clock: ManualClock) -> None:
    sim.settings(rate_limits=True)
    answers = [arm.call("GET", ROOT) for _ in range(251)]
    assert [one.status_code for one in answers].count(200) == 250
    assert answers[-1].status_code == 429
    assert answers[-1].headers["Retry-After"] == "1"
    other = ROOT.replace("0001", "0002")
    assert arm.call("GET", other).status_code == 200
    clock.forward(1)
    assert arm.call("GET", ROOT).status_code == 200


def test_faults_go_by_operation_and_region(arm: Arm, sim: Control) -> None:
    fault: dict[str, Any] = {"provider": "azure", "times": None}
    sim.fault("VirtualMachines.CreateOrUpdate", "error", code="AllocationFailed", region="eastus", **fault)
    arm.refused("AllocationFailed", 409, "PUT", VM, body(), **CREATE)
    assert arm.call("PUT", VM, body(region="westeurope"), **CREATE).status_code == 201
    sim.fault("VirtualMachines.Get", "throttle", **fault)
    arm.refused("TooManyRequests", 429, "GET", VM)
    sim.clear_faults()
    sim.fault("VirtualMachines.Delete", "lose_reply", provider="azure")
    with pytest.raises(httpx.RemoteProtocolError):
        arm.call("DELETE", VM)
    assert arm.get(VM)["properties"]["provisioningState"] == "Deleting"
    assert sim.calls("azure")["VirtualMachines.CreateOrUpdate"] == 2


def test_a_fresh_vm_shows_late_and_its_name_is_taken_at_once(arm: Arm, sim: Control, clock: ManualClock) -> None:
    sim.settings(list_lag_seconds=2.0)
    arm.launch()
    arm.refused("ResourceNotFound", 404, "GET", VM)
    assert arm.items("Microsoft.Compute/virtualMachines") == []
    assert arm.call("DELETE", VM).status_code == 204
    arm.refused("PreconditionFailed", 412, "PUT", VM, body(), **CREATE)
    clock.forward(2)
    assert arm.get(VM)["name"] == "vm"


def test_sizes_tell_zones_and_what_is_closed(arm: Arm, sim: Control) -> None:
    sim.offered("eastus-1", "Standard_NC4as_T4_v3", offered=False, provider="azure")
    found = arm.items(f"{COMPUTE}/skus?$filter=location eq 'eastus'&api-version=2021-07-01")
    skus = {one["name"]: one for one in found}
    assert skus["Standard_NC4as_T4_v3"]["locationInfo"][0]["zones"] == ["1", "2", "3"]
    (closed,) = skus["Standard_NC4as_T4_v3"]["restrictions"]
    assert (closed["type"], closed["restrictionInfo"]["zones"]) == ("Zone", ["1"])
    assert skus["Standard_ND96asr_v4"]["locationInfo"][0]["zones"] == []
    assert skus["Standard_ND96asr_v4"]["restrictions"] == []
    assert skus["Standard_ND96isr_H200_v5"]["restrictions"][0]["type"] == "Location"
    assert skus["Premium_LRS"]["resourceType"] == "disks"
    arm.refused("InvalidParameter", 400, "GET", f"{COMPUTE}/skus")


def test_limits_tell_what_is_used_of_them(arm: Arm, sim: Control) -> None:
    sim.quota("lowPriorityCores", 7, provider="azure", region="eastus")
    arm.launch()
    found = {one["name"]["value"]: one for one in arm.items(f"{COMPUTE}/locations/eastus/usages")}
    assert found["lowPriorityCores"]["limit"] == 7
    assert found["Standard NCASv3_T4 Family"]["currentValue"] == 4


def test_every_size_is_sold_somewhere_and_counts_against_a_quota_that_exists() -> None:
    facts = catalog()
    for machine in facts.machines.values():
        assert any(name == machine.name for _, name in facts.offered), machine.name
        assert set(machine.quota_codes.values()) <= set(QUOTA_NAMES)
    assert all(facts.region_of(zone) == region for region, zones in REGIONS.items() for zone in zones)
    assert all(offer.spot < offer.on_demand for offer in facts.offers.values())


def test_a_restart_forgets_nothing(tmp_path: Path, clock: ManualClock) -> None:
    state = tmp_path / "state"
    with running(clock=clock, state=state) as sim:
        sim.capacity(0, provider="azure", zone="eastus-2")
        arm = Arm(sim.url)
        arm.launch("good")
        arm.launch("bad", zones=["2"])
        clock.forward(5)
        before = {one["name"]: one["properties"]["vmId"] for one in arm.items("Microsoft.Compute/virtualMachines")}
        arm.close()
    with running(clock=clock, state=state) as sim:
        arm = Arm(sim.url)
        found = arm.items("Microsoft.Compute/virtualMachines")
        assert {one["name"]: one["properties"]["vmId"] for one in found} == before
        states = {one["name"]: one["properties"]["provisioningState"] for one in found}
        assert states == {"good": "Succeeded", "bad": "Failed"}
        assert len(sim.resources(provider="azure")) == 6
        arm.refused("PreconditionFailed", 412, "PUT", "Microsoft.Compute/virtualMachines/good", body(), **CREATE)
        for name in before:
            arm.call("DELETE", f"Microsoft.Compute/virtualMachines/{name}")
        clock.forward(1)
        assert sim.resources(provider="azure") == []
        arm.close()
