"""VMs that carry copied tags: never taken for the lease's VM, ended after the grace, and never instead of it."""

from collections.abc import Callable

import pytest
from sqlalchemy import select

from app.db.schema.tables import event
from tests.workers.cloud_samples import CloudSample
from tests.workers.fleet import ACCOUNT, Fleet
from workers.observation.inventory import take_inventory

FAILED_LAUNCH = {
    "aws": {"operation": "RunInstances", "code": "InternalError"},
    "gcp": {"operation": "instances.insert", "code": "backendError"},
    "azure": {"operation": "VirtualMachines.CreateOrUpdate", "code": "InternalServerError"},
}
"""A fault after which nobody knows whether the launch did anything. It did nothing."""


def take(fleet: Fleet) -> None:
    take_inventory(fleet.runtime, ACCOUNT, fleet.listed_region)


def test_a_copy_of_a_lease_vm_is_ended_after_the_grace_and_the_lease_keeps_its_own(
    start_at_cloud: Callable[..., Fleet], cloud: CloudSample
) -> None:
    fleet = start_at_cloud(rowless_grace_seconds=1.0)
    lease_id = fleet.create(**cloud.request)
    active = fleet.drive_to(lease_id, "active", "failed")
    (genuine,) = fleet.vms()
    copy = cloud.plant_copy(fleet.sim, genuine["tags"])
    take(fleet)
    (orphan,) = fleet.orphans()
    assert (orphan.cause, orphan.state, orphan.lease_id) == ("copied_tags", "seen", lease_id)
    take(fleet)
    assert fleet.is_alive(copy), "it has its grace"
    fleet.drive(lambda: not fleet.is_alive(copy))
    assert fleet.is_alive(genuine["id"])
    assert fleet.hold() is None
    after = fleet.lease(lease_id)
    assert (after.state, after.placement["instance_id"]) == ("active", active.placement["instance_id"])
    fleet.drive(lambda: [one.state for one in fleet.orphans()] == ["gone"])
    ended = fleet.runtime.database.all(select(event.c.id).where(event.c.type == "orphan.ended"))
    assert ended == [], "the tenant never had the copy"


def test_a_copy_is_never_taken_for_what_an_unanswered_launch_made(
    start_at_cloud: Callable[..., Fleet], cloud: CloudSample
) -> None:
    """The launch makes nothing at first; a copy with the attempt's tags runs meanwhile."""
    fleet = start_at_cloud(rowless_grace_seconds=3600.0, unknown_retry_seconds=30.0)
    fleet.active(**cloud.request)
    (model,) = fleet.vms()
    fleet.sim.fault(mode="error", provider=cloud.provider, times=None, **FAILED_LAUNCH[cloud.provider])
    lease_id = fleet.create(**cloud.request)
    fleet.drive(lambda: [one.state for one in fleet.attempts(lease_id)] == ["sent"])
    copy = cloud.plant_copy(fleet.sim, {**model["tags"], "gpulease-lease": lease_id})
    take(fleet)
    assert [one.state for one in fleet.attempts(lease_id)] == ["sent"], "a copy is not the attempt's VM"
    fleet.sim.clear_faults()
    active = fleet.drive_to(lease_id, "active", "failed", seconds=25)
    assert active.state == "active"
    genuine = {vm["id"] for vm in fleet.vms()} - {copy, model["id"]}
    assert active.placement["instance_id"].rpartition(":")[2] in genuine
    take(fleet)
    assert [one.cause for one in fleet.orphans()] == ["copied_tags"]


@pytest.mark.parametrize("number", ["0", "01", "٣"])
def test_an_attempt_number_that_we_never_write_names_no_attempt(
    start_at_cloud: Callable[..., Fleet], cloud: CloudSample, number: str
) -> None:
    fleet = start_at_cloud(rowless_grace_seconds=3600.0)
    lease_id = fleet.create(**cloud.request)
    fleet.drive_to(lease_id, "active")
    (model,) = fleet.vms()
    cloud.plant_copy(fleet.sim, {**model["tags"], "gpulease-attempt": number})
    take(fleet)
    (orphan,) = fleet.orphans()
    assert (orphan.cause, orphan.lease_id, orphan.attempt_n) == ("copied_tags", None, None)
