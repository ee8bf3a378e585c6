"""The deadline tag, and the command that ends VMs by it when nothing else of ours is left."""

from datetime import datetime, timedelta
from typing import Any

from app.domain.ids import LeaseId
from tests.workers.fleet import Fleet


def tagged(fleet: Fleet) -> int:
    (vm,) = fleet.vms()
    return int(vm["tags"]["gpulease-deadline"])


def expected(row: Any) -> int:
    deadline: datetime = row.expires_at + timedelta(seconds=1800)
    return int(deadline.timestamp())


def extended(fleet: Fleet, lease_id: LeaseId) -> Any:
    fleet.extend(lease_id, 7200)
    fleet.make_due(lease_id)
    return fleet.lease(lease_id)


def test_a_launched_vm_carries_its_deadline(fleet: Fleet) -> None:
    active = fleet.drive_to(fleet.create(), "active")
    assert tagged(fleet) == expected(active)
    assert fleet.sim.calls().get("CreateTags", 0) == 0, "nothing to renew: the tag came with the launch"


def test_an_extended_lease_gets_its_tag_renewed_on_every_resource(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    after = extended(fleet, lease_id)
    fleet.drive(lambda: tagged(fleet) == expected(after))
    fleet.drive(lambda: fleet.step() == 0)
    applied = fleet.lease(lease_id).deadline_applied
    assert applied == after.expires_at + timedelta(seconds=1800)
    assert {r["tags"]["gpulease-deadline"] for r in fleet.sim.resources()} == {str(expected(after))}


def test_a_tag_that_cannot_be_written_is_tried_again(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.sim.fault("CreateTags", "throttle", times=1)
    after = extended(fleet, lease_id)
    fleet.drive(lambda: tagged(fleet) == expected(after))
