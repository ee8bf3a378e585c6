"""A lease's life at Azure: clouds that forget ended VMs at once, and that say "no capacity" after they said yes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.db.operations import brakes
from app.domain.ids import LeaseId
from app.local.waiting import wait_until
from app.settings import load_settings
from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.virtual_time import VirtualTime
from workers.jobs.refresh_offerings import refresh
from workers.observation.leftovers import sweep_leftovers
from workers.process.bootstrap import build_runtime
from workers.runtime.provider_rate_limiter import ProviderRateLimiter

REGION = "eastus"
SIZE = "Standard_NC4as_T4_v3"
WISH: dict[str, Any] = {"gpu": {"model": "T4", "count": 1, "memory_gib": None}, "instance_types": [SIZE]}
CONFIG = """
[[accounts]]
provider = "azure"
name = "{name}"
regions = ["{region}"]
endpoint_url = "{url}"
subscription_id = "00000000-0000-4000-8000-000000000001"
resource_group = "gpulease"
subnet_ids = {{ {region} = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/gpus" }}
"""


@pytest.fixture
def start(
    worker_settings: dict[str, Any],
    sim: Control,
    virtual_time: VirtualTime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Fleet]]:
    """Starts a worker with an Azure account, where a VM that is not found may be found for a long time to come."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "simulated")
    config = tmp_path / "azure.toml"
    with ExitStack() as ends:

        def make(region: str = REGION, **changes: Any) -> Fleet:
            config.write_text(CONFIG.format(name=ACCOUNT, region=region, url=sim.url))
            given = {**worker_settings, "config": config, "not_found_grace_seconds": 300.0, **changes}
            runtime = build_runtime(
                load_settings(**given),
                monotonic=virtual_time.monotonic,
            )
            fleet = Fleet(runtime, sim, observe=True, region=region, virtual_time=virtual_time)
            ends.callback(fleet.close)
            return fleet

        yield make


@pytest.fixture
def fleet(start: Callable[..., Fleet]) -> Fleet:
    return start()


def test_a_lease_of_an_amd_gpu_boots_from_an_image_with_amds_driver(start: Callable[..., Fleet]) -> None:
    fleet = start(region="eastus2")
    gpu = {"model": "MI300X", "count": 8, "memory_gib": 192, "interconnect": "Infinity Fabric", "vendor": "AMD"}
    lease_id = fleet.create(gpu=gpu, instance_types=None, min_local_disk_gib=20_000)
    active = fleet.drive_to(lease_id, "active", "failed")
    placement = active.placement
    assert active.state == "active"
    assert placement["image"]["name"] == "microsoft-dsvm:ubuntu-hpc:2404-rocm:24.04.2026060801"
    assert (placement["gpu"]["driver"], placement["network"]) == ("amd_rocm", {"gbps": 80.0, "fabric": "RDMA"})


def test_a_lease_becomes_active_and_then_released_without_the_grace_of_fresh_vms(fleet: Fleet) -> None:
    lease_id = fleet.create(**WISH)
    active = fleet.drive_to(lease_id, "active", "failed")
    assert active.state == "active"
    (vm,) = fleet.vms()
    assert active.placement["instance_id"] == f"{vm['name']}:{vm['id']}"
    fleet.end(lease_id)
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.state == "released"
    assert ended.billing_started_at <= ended.billing_ended_at <= ended.provider_gone_at
    assert fleet.vms() == []
    assert fleet.sim.resources() == []
    assert fleet.used() == {}


def test_a_vm_that_never_started_is_gone_when_its_accepted_end_is(fleet: Fleet) -> None:
    """Nobody has seen it run, but the provider knew it when it was told to end it: nothing waits for it to appear."""
    fleet.sim.settings(boot_seconds=3600.0)
    lease_id = fleet.create(**WISH)
    fleet.drive(lambda: [one.state for one in fleet.attempts(lease_id)] == ["known"])
    fleet.end(lease_id)
    assert fleet.drive_to(lease_id, "released").running_at is None
    assert fleet.vms() == []


def test_a_refusal_after_acceptance_is_cleaned_up_and_the_next_zone_tried(fleet: Fleet) -> None:
    for zone in ("eastus-1", "eastus-2"):
        fleet.sim.capacity(0, provider="azure", region=REGION, zone=zone)
    lease_id = fleet.create(**WISH, wait_seconds=60, allowed_cidrs=["203.0.113.0/24"])
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    *refused, launched = fleet.attempts(lease_id)
    assert {attempt.zone for attempt in refused} <= {"eastus-1", "eastus-2"}
    assert launched.zone == "eastus-3"
    assert {attempt.error["code"] for attempt in refused} <= {"ZonalAllocationFailed"}
    assert all(attempt.billing_started_at is None for attempt in refused)
    fleet.end(lease_id)
    assert fleet.drive_to(lease_id, "released", "failed").state == "released"
    assert fleet.vms() == []

    def nothing_left() -> bool:
        sweep_leftovers(fleet.runtime, ACCOUNT, REGION)
        return fleet.sim.resources() == []

    assert wait_until(nothing_left, timeout=5)


def test_a_vm_that_somebody_deletes_ends_its_lease(fleet: Fleet) -> None:
    lease_id = fleet.create(**WISH)
    fleet.drive_to(lease_id, "active")
    (vm,) = fleet.vms()
    fleet.sim.settings(shutdown_seconds=1.0)
    fleet.sim.stop(vm["id"], provider="azure")
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.reason["code"] == "instance_lost"


def test_an_evicted_vm_is_deleted_and_ends_its_lease(fleet: Fleet) -> None:
    """Azure deallocates it: its disk and address go on costing money until gpulease deletes the VM."""
    lease_id = fleet.create(**WISH, market="spot")
    fleet.drive_to(lease_id, "active", "failed")
    (vm,) = fleet.vms()
    fleet.sim.settings(shutdown_seconds=0.0)
    fleet.sim.interrupt(vm["id"], notice_seconds=0.0, provider="azure")
    fleet.wait_for(lambda: [one["state"] for one in fleet.vms()] == ["deallocated"])
    fleet.observe()
    stopped_at = fleet.runtime.database.all(brakes.now())[0].now
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert (ended.reason["code"], ended.reason["origin"]) == ("interrupted", "provider")
    assert ended.billing_ended_at <= stopped_at < ended.provider_gone_at
    assert fleet.vms() == []
    assert fleet.sim.resources() == []
    assert fleet.used() == {}


def test_an_evicted_vm_is_deleted_and_replaced(fleet: Fleet) -> None:
    lease_id = fleet.create(**WISH, market="spot", on_interruption="replace", wait_seconds=60)
    fleet.drive_to(lease_id, "active", "failed")
    (vm,) = fleet.vms()
    fleet.sim.interrupt(vm["id"], notice_seconds=0.0, provider="azure")
    fleet.drive(lambda: len(fleet.attempts(lease_id)) == 2)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    first, second = fleet.attempts(lease_id)
    assert (first.state, first.error["class"]) == ("dead", "VmEnded")
    assert second.instance_id != first.instance_id
    assert {row[1] for row in fleet.cooling()} == {"interrupted"}
    assert [one["id"] for one in fleet.vms()] != [vm["id"]]
    assert len(fleet.vms()) == 1
    assert all(one["instance_id"] != vm["id"] for one in fleet.sim.resources())


def test_a_vm_of_an_earlier_version_is_deleted_at_its_eviction(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure forgets it at once. It was seen to run, so nothing waits for it to appear."""
    with monkeypatch.context() as earlier:
        earlier.setattr("workers.providers.azure.vms.DEALLOCATE", "Delete")
        lease_id = fleet.create(**WISH, market="spot")
        fleet.drive_to(lease_id, "active", "failed")
    (vm,) = fleet.vms()
    fleet.sim.interrupt(vm["id"], notice_seconds=0.1, provider="azure")
    fleet.wait_for(lambda: fleet.sim.instances(id=vm["id"], alive="true") == [])
    assert fleet.drive_to(lease_id, "released", "failed").reason["code"] == "instance_lost"
    assert fleet.used() == {}


def test_a_size_whose_zones_are_all_closed_is_launched_without_a_zone(fleet: Fleet) -> None:
    for number in "123":
        fleet.sim.offered(f"{REGION}-{number}", SIZE, offered=False, provider="azure")
    fleet.sim.offered(REGION, SIZE, offered=True, provider="azure")
    refresh(fleet.runtime, ACCOUNT, REGION)
    lease_id = fleet.create(**WISH, wait_seconds=60)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    *refused, launched = fleet.attempts(lease_id)
    assert launched.zone == REGION
    assert {attempt.error["class"] for attempt in refused} <= {"NotOffered"}


def test_a_group_that_is_being_changed_delays_its_own_lease_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed: list[str] = []
    monkeypatch.setattr(
        ProviderRateLimiter, "throttled", lambda _self, _provider, bucket, _error: slowed.append(bucket)
    )
    fleet.sim.fault(
        "NetworkSecurityGroups.CreateOrUpdate", "error", provider="azure", code="AnotherOperationInProgress"
    )
    lease_id = fleet.create(**WISH, allowed_cidrs=["203.0.113.0/24"])
    fleet.drive(lambda: bool(fleet.attempts(lease_id)))
    (attempt,) = fleet.attempts(lease_id)
    assert (attempt.state, attempt.error["class"]) == ("sent", "NotReady")
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert slowed == []
    assert len(fleet.attempts(lease_id)) == 1


def test_a_vm_that_is_missing_for_a_moment_keeps_its_lease(start: Callable[..., Fleet]) -> None:
    fleet = start(settle_gap_seconds=120.0)
    lease_id = fleet.create(**WISH)
    fleet.drive_to(lease_id, "active", "failed")
    fleet.observe()
    (vm,) = fleet.vms()
    fleet.sim.stop(vm["id"], provider="azure")
    fleet.wait_for(lambda: fleet.vms() == [])
    fleet.drive(lambda: fleet.attempts(lease_id)[0].vm_state == "absent")
    fleet.make_due(lease_id)
    fleet.step()
    assert fleet.lease(lease_id).state == "active"


@pytest.mark.parametrize("market", ["on_demand", "spot"])
def test_a_vm_that_shows_as_stopped_while_azure_creates_it_is_not_ended(
    start: Callable[..., Fleet], market: str
) -> None:
    fleet = start(launch_timeout=60.0, boot_timeout=60.0)
    fleet.sim.settings(boot_seconds=40.0)
    lease_id = fleet.create(**WISH, market=market)
    fleet.drive(lambda: [one.state for one in fleet.attempts(lease_id)] == ["known"])
    (vm,) = fleet.vms()
    for _ in range(3):
        fleet.observe()
        fleet.make_due(lease_id)
        fleet.step()
        assert [one.vm_state for one in fleet.attempts(lease_id)] == ["pending"]
        fleet.let_pass(1.0)
    assert fleet.drive_to(lease_id, "active", "failed", seconds=300).state == "active"
    assert [(one["id"], one["state"]) for one in fleet.vms()] == [(vm["id"], "running")]
    assert fleet.cooling() == []


def test_an_end_that_meets_the_creation_is_repeated(fleet: Fleet) -> None:
    fleet.sim.settings(boot_seconds=60.0, busy_seconds=4.0)
    lease_id = fleet.create(**WISH)
    fleet.drive(lambda: [one.state for one in fleet.attempts(lease_id)] == ["known"])
    fleet.end(lease_id)
    assert fleet.drive_to(lease_id, "released", "failed", seconds=120).state == "released"
    assert fleet.sim.calls("azure")["VirtualMachines.Delete"] > 1
    assert (fleet.vms(), fleet.sim.resources(), fleet.used()) == ([], [], {})


def test_a_full_region_is_a_quota_refusal_although_the_family_has_room(fleet: Fleet) -> None:
    fleet.sim.quota("cores", 0, provider="azure")
    lease_id = fleet.create(**WISH)
    assert fleet.drive_to(lease_id, "active", "failed").state == "failed"
    assert {one.error["class"] for one in fleet.attempts(lease_id)} == {"ProviderQuotaExceeded"}
    assert fleet.vms() == []


def failed_while_it_runs(fleet: Fleet) -> LeaseId:
    """An active lease whose VM is Failed at Azure, because an update failed."""
    lease_id = fleet.active(**WISH)
    fleet.sim.fault("VirtualMachines.Update", "fail_after", provider="azure")
    fleet.extend(lease_id, 600)
    fleet.make_due(lease_id)
    fleet.drive(lambda: fleet.sim.faults() == [])
    fleet.let_pass(1.0)
    return lease_id


def test_a_failed_vm_that_one_listing_shows_without_its_power_state_keeps_its_lease(fleet: Fleet) -> None:
    lease_id = failed_while_it_runs(fleet)
    fleet.sim.fault("VirtualMachines.ListAll", "incomplete", provider="azure", times=None)
    fleet.observe()
    assert fleet.attempts(lease_id)[0].vm_state == "stopped"
    fleet.let_pass(1.0)
    fleet.make_due(lease_id)
    fleet.step()
    (attempt,) = fleet.attempts(lease_id)
    assert (fleet.lease(lease_id).state, attempt.vm_state) == ("active", "running"), "a direct read shows that it runs"
    fleet.sim.clear_faults()
    fleet.extend(lease_id, 600)
    fleet.make_due(lease_id)
    fleet.step()
    fleet.let_pass(1.0)
    fleet.observe()
    assert (fleet.lease(lease_id).state, len(fleet.vms())) == ("active", 1), "the next update has succeeded"


def test_a_vm_that_is_stopped_in_one_answer_and_missing_in_the_next_counts_as_missing(
    start: Callable[..., Fleet],
) -> None:
    """It may appear again for as long as any other VM that is not there."""
    fleet = start(settle_gap_seconds=120.0)
    lease_id = failed_while_it_runs(fleet)
    fleet.sim.fault("VirtualMachines.ListAll", "incomplete", provider="azure", times=None)
    fleet.observe()
    (vm,) = fleet.vms()
    fleet.sim.stop(vm["id"], provider="azure")
    fleet.wait_for(lambda: fleet.vms() == [])
    assert fleet.attempts(lease_id)[0].vm_state == "stopped"
    fleet.let_pass(31.0)
    fleet.make_due(lease_id)
    fleet.step()
    assert (fleet.lease(lease_id).state, fleet.attempts(lease_id)[0].vm_state) == ("active", "absent")
    ended = fleet.drive_to(lease_id, "released", "failed", seconds=600)
    assert (ended.reason["code"], fleet.used()) == ("instance_lost", {})


def test_a_vm_that_went_unseen_is_not_billed_until_its_lease_was_released(fleet: Fleet) -> None:
    lease_id = fleet.create(**WISH)
    fleet.drive_to(lease_id, "active")
    fleet.observe()
    (vm,) = fleet.vms()
    fleet.sim.stop(vm["id"], provider="azure")
    fleet.wait_for(lambda: fleet.vms() == [])
    gone_at = fleet.runtime.database.all(brakes.now())[0].now
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert fleet.lease(lease_id).billing_ended_at < gone_at


def test_a_refusal_that_is_found_after_a_lost_answer_is_one_all_the_same(fleet: Fleet) -> None:
    """Read back, the VM has failed already; deleted, it is forgotten at once. Nothing waits for it to appear."""
    fleet.sim.capacity(0, provider="azure", region=REGION, zone="eastus-1")
    fleet.sim.fault("VirtualMachines.CreateOrUpdate", "lose_reply", provider="azure")
    lease_id = fleet.create(**WISH, wait_seconds=60)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    first, second = fleet.attempts(lease_id)
    assert (first.zone, first.state, first.error["code"]) == ("eastus-1", "refused", "ZonalAllocationFailed")
    assert second.zone != "eastus-1"
    assert len(fleet.vms()) == 1
