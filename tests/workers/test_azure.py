"""A lease's life at Azure: clouds that forget ended VMs at once, and that say "no capacity" after they said yes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.db.operations import brakes
from app.local.waiting import wait_until
from app.settings import load_settings
from cloudsim.testing import Control
from tests.workers.conftest import FAST
from tests.workers.fleet import ACCOUNT, Fleet
from workers.bootstrap import build_runtime
from workers.observation.leftovers import sweep_leftovers

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
    database_url: str, broker_url: str, sim: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Fleet]]:
    """Starts a worker with an Azure account, where a VM that is not found may be found for a long time to come."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "simulated")
    config = tmp_path / "azure.toml"
    config.write_text(CONFIG.format(name=ACCOUNT, region=REGION, url=sim.url))
    with ExitStack() as ends:

        def make(**changes: Any) -> Fleet:
            given = {**FAST, "config": config, "not_found_grace_seconds": 300.0, **changes}
            runtime = build_runtime(load_settings(**given, database_url=database_url, broker_url=broker_url))
            fleet = Fleet(runtime, sim, observe=True, region=REGION)
            ends.callback(fleet.close)
            return fleet

        yield make


@pytest.fixture
def fleet(start: Callable[..., Fleet]) -> Fleet:
    return start()


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


def test_an_evicted_vm_ends_its_lease_although_it_was_launched_a_moment_ago(fleet: Fleet) -> None:
    """Azure forgets it at once. It was seen to run, so nothing waits for it to appear."""
    lease_id = fleet.create(**WISH, market="spot")
    fleet.drive_to(lease_id, "active", "failed")
    (vm,) = fleet.vms()
    fleet.sim.interrupt(vm["id"], notice_seconds=0.1, provider="azure")
    fleet.wait_for(lambda: fleet.sim.instances(id=vm["id"], alive="true") == [])
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.reason["code"] in {"interrupted", "instance_lost"}
    assert fleet.used() == {}


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
