"""A VM that the provider keeps pending is ended, and its lease tries the next candidate."""

from collections.abc import Callable

from app.domain.leases import AttemptState
from tests.workers.fleet import NEVER, Fleet


def test_after_a_vm_that_does_not_start_the_next_candidate_is_tried(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(launch_timeout=1.0)
    fleet.sim.settings(boot_seconds=NEVER)
    lease_id = fleet.create(wait_seconds=600)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
    first, second = fleet.attempts(lease_id)
    assert (first.state, first.error["class"]) == (AttemptState.DEAD, "LaunchTimeout")
    assert first.error["message"] == "the VM did not start within 1 s"
    assert {row[1] for row in fleet.cooling()} == {"launch_timeout"}
    assert second.instance_type != first.instance_type or second.zone != first.zone
    fleet.sim.settings(boot_seconds=0)
    fleet.drive_to(lease_id, "active")
    assert len(fleet.vms()) == 1


def test_a_lease_fails_with_launch_timeout_when_no_vm_starts_anywhere(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(launch_timeout=0.3)
    fleet.sim.settings(boot_seconds=NEVER)
    lease_id = fleet.create(wait_seconds=0)
    ended = fleet.drive_to(lease_id, "failed", seconds=60)
    assert (ended.reason["code"], ended.reason["origin"]) == ("launch_timeout", "provider")
    assert fleet.vms() == []


def test_a_vm_that_somebody_ends_before_it_starts_is_no_launch_timeout(fleet: Fleet) -> None:
    """gpulease ends such a VM too, to be sure: that says nothing about why it ended."""
    fleet.sim.settings(boot_seconds=NEVER)
    lease_id = fleet.create(wait_seconds=600)
    fleet.drive(lambda: bool(fleet.vms()))
    fleet.sim.stop(fleet.vms()[0]["id"])
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
    first, _ = fleet.attempts(lease_id)
    assert (first.state, first.error["class"]) == (AttemptState.DEAD, "VmEnded")
    assert fleet.cooling() == [], "its tenant may have ended it from inside"
