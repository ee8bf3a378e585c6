"""A lease with volumes: its VM has them before the lease is active, and they outlive the VM."""

from collections.abc import Callable

import pytest

from app.domain.volumes import VolumeMount, VolumeState
from cloudsim.ssh import shell
from cloudsim.ssh.server import facts_of
from tests.workers.failing import NO_LINE, NOBODY_KNOWS, Failing
from tests.workers.fleet import Fleet
from tests.workers.volumes import ZONE, VolumeFleet
from workers.lifecycle.steps.context import ClaimLostError
from workers.lifecycle.steps.launch_spec import volume_specs


@pytest.fixture
def volumes(make_fleet: Callable[..., Fleet]) -> VolumeFleet:
    """A VM may boot for longer than the pause after a failed call."""
    return VolumeFleet(make_fleet(boot_timeout=60.0))


def held_by(volumes: VolumeFleet) -> dict[str, str | None]:
    """The VM that has each volume, by name."""
    return {disk["tags"]["Name"]: disk.get("instance_id") for disk in volumes.disks()}


def test_an_active_lease_has_its_volumes_in_the_order_of_the_request(volumes: VolumeFleet) -> None:
    first, second = volumes.available("zeta"), volumes.available("alpha")
    lease_id = volumes.lease("zeta", "alpha")
    active = volumes.fleet.drive_to(lease_id, "active", "failed")
    assert active.state == "active"
    (attempt,) = volumes.fleet.attempts(lease_id)
    assert (attempt.zone, attempt.volumes_attached_at is not None) == (ZONE, True)
    assert held_by(volumes) == {"zeta": attempt.instance_id, "alpha": attempt.instance_id}
    assert volumes.fleet.sim.calls()["AttachVolume"] == 2
    assert {volumes.row(one).lease_id for one in (first, second)} == {lease_id}


def test_the_end_of_a_lease_frees_its_volumes_and_leaves_their_disks(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    lease_id = volumes.lease("data")
    volumes.fleet.drive_to(lease_id, "active")
    volumes.fleet.end(lease_id)
    volumes.fleet.drive_to(lease_id, "released")
    row = volumes.row(volume_id)
    assert (row.state, row.lease_id, row.last_lease_id) == ("available", None, lease_id)
    following = volumes.lease("data")
    volumes.fleet.drive_to(following, "active")
    (attempt,) = volumes.fleet.attempts(following)
    assert held_by(volumes) == {"data": attempt.instance_id}


def test_a_worker_that_comes_after_the_end_of_its_lease_finds_no_volumes_and_stops() -> None:
    mounts = (VolumeMount("data", "/data"), VolumeMount("more", "/more"))
    assert [spec.cloud_id for spec in volume_specs(mounts, {"more": "vol-2", "data": "vol-1"})] == ["vol-1", "vol-2"]
    with pytest.raises(ClaimLostError):
        volume_specs(mounts, {})


def test_a_replacement_vm_gets_the_volume_in_the_same_zone(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    lease_id = volumes.lease("data", market="spot", on_interruption="replace", wait_seconds=600)
    active = volumes.fleet.drive_to(lease_id, "active")
    volumes.fleet.sim.interrupt(active.placement["instance_id"], 0)
    volumes.fleet.drive_to(lease_id, "queued")
    volumes.fleet.end_cool_offs()
    volumes.fleet.make_due(lease_id)
    volumes.fleet.drive(lambda: len(volumes.fleet.attempts(lease_id)) == 2)
    volumes.fleet.drive_to(lease_id, "active", seconds=300)
    first, second = volumes.fleet.attempts(lease_id)
    assert first.zone == second.zone == ZONE
    assert held_by(volumes) == {"data": second.instance_id}
    assert volumes.row(volume_id).lease_id == lease_id


def in_shell(volumes: VolumeFleet, vm_id: str, line: str) -> str:
    """What the shell of a VM prints, as over SSH."""
    world = volumes.fleet.sim.world
    assert world is not None
    result = shell.run(line, facts_of(world.vms[vm_id], "ubuntu", world))
    assert result.status == 0, result.error
    return result.output


def test_a_file_on_a_volume_of_a_spot_lease_is_there_in_the_replacement_vm(volumes: VolumeFleet) -> None:
    volumes.available()
    lease_id = volumes.lease("data", market="spot", on_interruption="replace", wait_seconds=600)
    first = volumes.fleet.drive_to(lease_id, "active").placement["instance_id"]
    in_shell(volumes, first, "echo epoch 7 > /mnt/data/checkpoint")
    volumes.fleet.sim.interrupt(first, 0)
    volumes.fleet.drive_to(lease_id, "queued")
    volumes.fleet.end_cool_offs()
    volumes.fleet.make_due(lease_id)
    second = volumes.fleet.drive_to(lease_id, "active", seconds=300).placement["instance_id"]
    assert second != first
    assert in_shell(volumes, second, "cat /mnt/data/checkpoint") == "epoch 7\n"


@pytest.mark.parametrize("error", [NOBODY_KNOWS, NO_LINE], ids=lambda error: type(error).__name__)
def test_a_lease_waits_for_its_volumes_and_repeats_the_call(
    make_fleet: Callable[..., Fleet], failing: Failing, error: Exception
) -> None:
    volumes = VolumeFleet(make_fleet(connect_account=failing.connect, boot_timeout=600.0))
    volumes.available()
    failing.errors = {"attach_volume": error}
    lease_id = volumes.lease("data")
    volumes.fleet.drive_to(lease_id, "booting")
    for _ in range(3):
        volumes.fleet.let_pass(6.0)
        volumes.fleet.step()
    assert volumes.fleet.lease(lease_id).state == "booting"
    assert volumes.fleet.attempts(lease_id)[0].error["class"] == type(error).__name__
    failing.errors = {}
    volumes.fleet.drive_to(lease_id, "active", "failed")
    assert volumes.fleet.lease(lease_id).state == "active"


def test_a_lost_answer_attaches_once(volumes: VolumeFleet) -> None:
    volumes.available()
    volumes.fleet.sim.fault("AttachVolume", "lose_reply")
    lease_id = volumes.lease("data")
    volumes.fleet.drive_to(lease_id, "active", "failed")
    assert volumes.fleet.lease(lease_id).state == "active"
    assert volumes.fleet.sim.calls()["AttachVolume"] == 1


def test_a_lease_whose_volumes_never_come_ends_and_frees_them(
    make_fleet: Callable[..., Fleet], failing: Failing
) -> None:
    volumes = VolumeFleet(make_fleet(connect_account=failing.connect, boot_timeout=20.0))
    volume_id = volumes.available()
    failing.errors = {"attach_volume": NOBODY_KNOWS}
    lease_id = volumes.lease("data")
    failed = volumes.fleet.drive_to(lease_id, "failed", seconds=600)
    assert failed.reason["code"] == "boot_timeout"
    assert "volumes were not attached" in failed.reason["message"]
    assert volumes.row(volume_id).lease_id is None
    assert volumes.row(volume_id).state == VolumeState.AVAILABLE


def test_leases_with_volumes_are_launched_alone(volumes: VolumeFleet) -> None:
    ids = [volumes.lease(name) for name in ("a", "b") if volumes.available(name)]
    volumes.fleet.drive_all_to(ids, "active")
    assert volumes.fleet.runs() == 2
    holders = held_by(volumes)
    assert len(set(holders.values())) == 2
