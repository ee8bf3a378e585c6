"""The disks of volumes: made once, deleted when requested, lost only after several looks, and never removed by mistake."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, update

from app.db.schema.tables import volume
from app.domain.volumes import VolumeState
from tests.workers.failing import NO_LINE, NOBODY_KNOWS, REJECTED, SLOW_DOWN, Failing
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.volumes import VolumeFleet

_S = VolumeState


@pytest.fixture
def volumes(fleet: Fleet) -> VolumeFleet:
    return VolumeFleet(fleet)


def test_a_volume_gets_one_disk_and_is_billed_from_then(volumes: VolumeFleet) -> None:
    volumes.fleet.sim.settings(volume_seconds=3.0)
    volume_id = volumes.create()
    volumes.work()
    row = volumes.row(volume_id)
    assert (row.state, row.kind) == ("creating", "gp3")
    assert row.billing_started_at is not None
    volumes.work_until(volume_id, _S.AVAILABLE)
    (disk,) = volumes.disks()
    assert (disk["id"], disk["tags"]["gpulease-volume"]) == (volumes.row(volume_id).cloud_id, volume_id)


def test_a_deleted_volume_has_no_disk_no_bill_and_no_quota(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    assert volumes.fleet.used()["volume_gib"] == 10
    volumes.delete(volume_id)
    volumes.work_until(volume_id, _S.DELETED)
    assert volumes.disks() == []
    assert volumes.row(volume_id).billing_ended_at is not None
    assert "volume_gib" not in volumes.fleet.used()


def test_a_volume_that_is_deleted_before_any_call_never_gets_a_disk(volumes: VolumeFleet) -> None:
    volume_id = volumes.create()
    volumes.delete(volume_id)
    volumes.work_until(volume_id, _S.DELETED)
    assert "CreateVolume" not in volumes.fleet.sim.calls()


@pytest.mark.parametrize("call", ["CreateVolume", "DeleteVolume", "DescribeVolumes"])
def test_a_lost_answer_leaves_one_disk_or_none(volumes: VolumeFleet, call: str) -> None:
    volumes.fleet.sim.fault(call, "lose_reply")
    volume_id = volumes.available()
    assert len(volumes.disks()) == 1
    volumes.fleet.sim.fault(call, "lose_reply")
    volumes.delete(volume_id)
    volumes.work_until(volume_id, _S.DELETED)
    assert volumes.disks() == []


def test_a_volume_that_is_deleted_while_its_creation_is_unknown_leaves_no_disk(volumes: VolumeFleet) -> None:
    volumes.fleet.sim.fault("CreateVolume", "lose_reply")
    volume_id = volumes.create()
    volumes.work()
    assert len(volumes.disks()) == 1
    volumes.delete(volume_id)
    volumes.work_until(volume_id, _S.DELETED)
    assert volumes.disks() == []


def test_a_refused_volume_fails_says_why_and_costs_nothing(volumes: VolumeFleet) -> None:
    volumes.fleet.sim.settings(volume_gib=5)
    volume_id = volumes.create()
    volumes.work_until(volume_id, _S.FAILED)
    row = volumes.row(volume_id)
    assert row.reason["code"] == "provider_quota"
    assert "VolumeLimitExceeded" in row.reason["message"]
    assert row.billing_started_at is None
    assert "volume_gib" not in volumes.fleet.used()


@pytest.mark.parametrize("error", [NOBODY_KNOWS, NO_LINE, SLOW_DOWN, REJECTED], ids=lambda error: type(error).__name__)
def test_an_answer_that_says_nothing_about_the_volume_is_waited_out(
    make_fleet: Callable[..., Fleet], failing: Failing, error: Exception
) -> None:
    volumes = VolumeFleet(make_fleet(connect_account=failing.connect))
    failing.errors = {"create_volume": error, **({"identity": error} if error is REJECTED else {})}
    volume_id = volumes.create()
    for _ in range(4):
        volumes.make_due(volume_id)
        volumes.work()
        volumes.fleet.let_pass(1.0)
    assert volumes.row(volume_id).state == "creating"
    failing.errors = {}
    volumes.work_until(volume_id, _S.AVAILABLE, seconds=600)
    assert volumes.row(volume_id).reason is None


def test_a_call_that_the_account_may_not_make_fails_the_volume(
    make_fleet: Callable[..., Fleet], failing: Failing
) -> None:
    volumes = VolumeFleet(make_fleet(connect_account=failing.connect))
    failing.errors = {"create_volume": REJECTED}
    volume_id = volumes.create()
    volumes.work_until(volume_id, _S.FAILED)


def test_a_disk_that_was_requested_with_other_settings_is_taken(volumes: VolumeFleet) -> None:
    volumes.fleet.sim.fault("CreateVolume", "lose_reply")
    volume_id = volumes.create()
    volumes.work()
    volumes.fleet.runtime.database.run(update(volume).where(volume.c.id == volume_id).values(size_gib=11))
    volumes.work_until(volume_id, _S.AVAILABLE)
    assert len(volumes.disks()) == 1
    volumes.fleet.runtime.database.run(update(volume).where(volume.c.id == volume_id).values(size_gib=10))


def test_one_bad_volume_and_one_tenant_with_many_hold_up_no_other(volumes: VolumeFleet) -> None:
    bad = volumes.create("bad", zone="us-east-1z")
    for number in range(120):
        volumes.create(f"v{number}")
    with volumes.fleet.other_tenant():
        other = volumes.create("other")
        volumes.work()
        assert volumes.row(other).state == "available"
    volumes.work_until(bad, _S.FAILED)


def test_a_hold_stops_every_call(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    volumes.delete(volume_id)
    volumes.fleet.put_on_hold()
    volumes.make_due(volume_id)
    volumes.work()
    assert len(volumes.disks()) == 1
    volumes.fleet.resume()
    volumes.work_until(volume_id, _S.DELETED)


# --- the listing ------------------------------------------------------------------------------------------


def vanish(volumes: VolumeFleet, volume_id: str) -> None:
    """Somebody deletes the disk in the cloud's console."""
    provider = volumes.fleet.runtime.accounts.provider(ACCOUNT)
    provider.delete_volume(REGION, volumes.row(volume_id).cloud_id)


def listings(volumes: VolumeFleet, count: int) -> None:
    for _ in range(count):
        volumes.observe()
        volumes.fleet.let_pass(volumes.fleet.runtime.timing.settle_gap + 1)


def test_a_disk_that_is_gone_is_lost_after_two_listings_and_a_read(volumes: VolumeFleet) -> None:
    volume_id, other = volumes.available(), volumes.available("other")
    listings(volumes, 1)
    vanish(volumes, volume_id)
    listings(volumes, 1)
    assert volumes.row(volume_id).state == "available"
    listings(volumes, 1)
    assert volumes.row(volume_id).state == "lost"
    assert volumes.row(other).state == "available"
    assert "no longer has the disk" in volumes.row(volume_id).reason["message"]
    assert volumes.row(volume_id).billing_ended_at is not None


def test_when_all_disks_are_missing_at_once_none_is_lost(volumes: VolumeFleet) -> None:
    ids = [volumes.available(f"v{number}") for number in range(8)]
    listings(volumes, 1)
    for volume_id in ids:
        vanish(volumes, volume_id)
    listings(volumes, 3)
    assert {volumes.row(volume_id).state for volume_id in ids} == {"available"}


def test_the_disk_of_a_live_volume_is_never_removed(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    lease_id = volumes.lease("data")
    volumes.fleet.drive_to(lease_id, "active")
    volumes.fleet.end(lease_id)
    volumes.fleet.drive_to(lease_id, "released")
    for _ in range(3):
        listings(volumes, 1)
        volumes.fleet.let_pass(volumes.fleet.runtime.settings.rowless_grace_seconds + 1)
    assert [disk["id"] for disk in volumes.disks()] == [volumes.row(volume_id).cloud_id]


def test_a_disk_without_a_row_is_data_and_stays(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    volumes.fleet.runtime.database.run(delete(volume).where(volume.c.id == volume_id))
    volumes.return_quota()
    for _ in range(3):
        listings(volumes, 1)
        volumes.fleet.let_pass(volumes.fleet.runtime.settings.rowless_grace_seconds + 1)
    assert len(volumes.disks()) == 1


def test_a_disk_with_copied_tags_is_not_removed_for_its_original(volumes: VolumeFleet) -> None:
    volume_id = volumes.available()
    now: Any = volumes.fleet.now()
    ended = {"state": "deleted", "ended_at": now, "billing_ended_at": now, "retry_at": None, "cloud_id": "vol-original"}
    volumes.fleet.runtime.database.run(update(volume).where(volume.c.id == volume_id).values(**ended))
    volumes.return_quota()
    for _ in range(3):
        listings(volumes, 1)
        volumes.fleet.let_pass(volumes.fleet.runtime.settings.rowless_grace_seconds + 1)
    assert len(volumes.disks()) == 1


@pytest.mark.parametrize(("state", "left"), [("deleted", 0), ("failed", 0), ("lost", 1)])
def test_a_disk_of_an_ended_volume_goes_after_the_grace_period_unless_it_was_lost(
    volumes: VolumeFleet, state: str, left: int
) -> None:
    volume_id = volumes.available()
    now: Any = volumes.fleet.now()
    ended = {"state": state, "ended_at": now, "billing_ended_at": now, "retry_at": None}
    volumes.fleet.runtime.database.run(update(volume).where(volume.c.id == volume_id).values(**ended))
    volumes.return_quota()
    volumes.observe()
    assert len(volumes.disks()) == 1, "it has shown once"
    volumes.fleet.let_pass(volumes.fleet.runtime.settings.rowless_grace_seconds + 1)
    volumes.observe()
    assert len(volumes.disks()) == left
