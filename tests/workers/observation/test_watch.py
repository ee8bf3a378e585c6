"""What inventory and garbage collection see: lost VMs, interruptions, orphans, strangers."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from app.db.schema.tables import account_region, attempt, lease
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation import watch as watching
from workers.observation.inventory import take_inventory
from workers.observation.watch import watch
from workers.providers.aws.adapter import AwsProvider
from workers.providers.errors import ProviderError, Throttled


def test_a_vm_ended_behind_our_back_closes_the_lease_its_billing_and_its_quota(fleet: Fleet) -> None:
    lease_id = fleet.create()
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.stop(active.placement["instance_id"])
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.state == "released"
    assert ended.reason["code"] == "instance_lost"
    assert ended.rate_per_hour is None
    assert ended.billing_ended_at is not None
    assert fleet.used() == {}


@pytest.mark.parametrize("look", [watch, take_inventory])
def test_a_look_and_a_step_at_the_same_lease_do_not_wait_in_a_circle(fleet: Fleet, look: Callable[..., int]) -> None:
    fleet.sim.settings(boot_seconds=0.1)
    lease_id = fleet.create()
    while fleet.step():
        pass
    fleet.wait_for(lambda: [vm["state"] for vm in fleet.vms()] == ["running"])
    database = fleet.runtime.database
    with ThreadPoolExecutor(1) as thread:
        with database.begin() as step:
            step.execute(update(lease).where(lease.c.id == lease_id).values(wake_count=lease.c.wake_count + 1))
            looking = thread.submit(look, fleet.runtime, ACCOUNT, REGION)
            fleet.wait_for(lambda: bool(database.all(text("SELECT FROM pg_locks WHERE NOT granted"))))
            step.execute(update(attempt).where(attempt.c.lease_id == lease_id).values(ready=attempt.c.ready))
        looking.result(10)
    assert [one.vm_state for one in fleet.attempts(lease_id)] == ["running"]


def test_an_announced_interruption_is_shown_before_it_ends_the_lease(fleet: Fleet) -> None:
    lease_id = fleet.create(market="spot")
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.interrupt(active.placement["instance_id"], 1.0)
    fleet.drive(lambda: fleet.lease(lease_id).interruption is not None)
    shown = fleet.lease(lease_id)
    assert shown.state == "active"
    assert shown.interruption["action"] == "terminate"
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.reason["code"] == "interrupted"
    assert ended.reason["origin"] == "provider"
    assert "lease.interruption_notice" in fleet.events(lease_id)


def test_an_interrupted_lease_that_wants_replacement_gets_another_vm(fleet: Fleet) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace")
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.interrupt(active.placement["instance_id"], 0)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) == 2)
    again = fleet.drive_to(lease_id, "active", "failed")
    assert again.state == "active"
    old, new = fleet.attempts(lease_id)
    assert (old.state, new.state) == ("dead", "known")
    assert old.zone != new.zone
    assert len(fleet.vms()) == 1


def test_a_lease_expires_by_itself(quick_fleet: Fleet) -> None:
    lease_id = quick_fleet.create(ttl=6.0)
    quick_fleet.drive_to(lease_id, "active")
    ended = quick_fleet.drive_to(lease_id, "released", "failed", seconds=20)
    assert ended.reason["code"] == "expired"
    assert quick_fleet.vms() == []


def test_a_vm_that_never_gets_ready_ends_with_boot_timeout(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(boot_timeout=0.5)
    fleet.sim.fault("DescribeInstanceStatus", "lose_reply", times=None)
    lease_id = fleet.create()
    ended = fleet.drive_to(lease_id, "released", "failed", seconds=20)
    assert ended.state == "failed"
    assert ended.reason["code"] == "boot_timeout"
    assert fleet.vms() == []


def test_a_vm_with_our_tag_that_we_did_not_launch_is_listed_and_ended_after_the_grace(fleet: Fleet) -> None:
    tags = {"gpulease-installation": fleet.runtime.installation.id}
    (planted,) = fleet.plant(tags=tags)
    fleet.observe()
    (orphan,) = fleet.orphans()
    assert (orphan.instance_id, orphan.cause, orphan.state) == (planted, "copied_tags", "seen")
    assert fleet.is_alive(planted)
    fleet.drive(lambda: not fleet.is_alive(planted))
    fleet.drive(lambda: fleet.orphans()[0].state == "gone")


def test_a_strangers_vm_is_never_touched_nor_shown(fleet: Fleet) -> None:
    strange = {"gpulease-installation": "gpl-another", "gpulease-deadline": "1"}
    planted = [*fleet.plant(tags={"Name": "theirs"}), *fleet.plant(tags=strange)]
    for _ in range(3):
        fleet.observe()
    assert fleet.orphans() == []
    assert all(fleet.is_alive(one) for one in planted)


def test_a_live_lease_is_not_written_by_an_inventory_that_changes_nothing(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.drive(lambda: fleet.step() == 0)
    before = fleet.row_versions(lease_id)
    fleet.observe()
    assert fleet.row_versions(lease_id) == before


def test_a_listing_that_breaks_off_changes_nothing(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.sim.fault("DescribeInstances", "error", code="InternalError", times=None)
    listed_at = fleet.region().last_complete_listing_at
    fleet.observe()
    assert fleet.lease(lease_id).state == "active"
    assert fleet.region().last_complete_listing_at == listed_at


def test_what_a_look_saw_counts_though_the_question_after_it_fails(fleet: Fleet) -> None:
    fleet.sim.fault("DescribeInstanceStatus", "error", code="Unavailable", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(one.vm_state == "running" for one in fleet.attempts(lease_id)))
    fleet.runtime.database.run(update(attempt).values(vm_state="pending"))
    fleet.runtime.database.run(update(account_region).values(last_watched_at=None))
    with pytest.raises(ProviderError):
        watch(fleet.runtime, ACCOUNT, REGION)
    (seen,) = fleet.attempts(lease_id)
    assert seen.vm_state == "running"
    assert watched_at(fleet) is not None


def test_a_look_without_any_answer_was_none(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive(lambda: any(one.instance_id for one in fleet.attempts(lease_id)))
    fleet.runtime.database.run(update(account_region).values(last_watched_at=None))
    fleet.sim.fault("DescribeInstances", "error", code="Unavailable", times=None)
    with pytest.raises(ProviderError):
        watch(fleet.runtime, ACCOUNT, REGION)
    assert watched_at(fleet) is None


def test_a_look_that_shows_none_of_its_vms_was_none(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's credentials show nothing: no VM is given up for it."""
    lease_id = fleet.create()
    fleet.drive(lambda: any(each.instance_id for each in fleet.attempts(lease_id)))
    fleet.runtime.database.run(update(account_region).values(last_watched_at=None))
    monkeypatch.setattr(AwsProvider, "get", lambda *arguments: dict.fromkeys(arguments[-1]))
    watch(fleet.runtime, ACCOUNT, REGION)
    assert watched_at(fleet) is None


def watched_at(fleet: Fleet) -> datetime | None:
    row: Any = fleet.runtime.database.first(select(account_region.c.last_watched_at))
    found: datetime | None = row.last_watched_at
    return found


class AskedAlone(AwsProvider):
    """A cloud that tells of one VM a call whether it is ready."""

    limits = replace(AwsProvider.limits, readiness=1)


def test_a_vm_that_will_report_its_host_keys_is_asked_about_once_it_has(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(connect_account=AskedAlone, public_url="https://gpu.example.org", boot_timeout=60)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "booting")
    fleet.observe()
    assert "DescribeInstanceStatus" not in fleet.sim.calls()
    fleet.runtime.database.run(update(lease).values(ssh_host_keys=["ssh-ed25519 AAAA"]))
    fleet.drive_to(lease_id, "active")


def test_a_vm_that_cannot_report_its_host_keys_is_asked_about_after_a_while(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(connect_account=AskedAlone, public_url="https://gpu.example.org", boot_timeout=60)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "booting")
    fleet.runtime.database.run(update(attempt).values(vm_state_at=func.now() - timedelta(seconds=16)))
    fleet.drive_to(lease_id, "active")


class Throttling(AwsProvider):
    """A cloud that throttles each question about readiness. `asked`: how many there were."""

    asked = 0

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        Throttling.asked += 1
        raise Throttled("slow down", code="RequestLimitExceeded")


def test_a_cloud_that_throttles_is_asked_about_no_more_vms_in_this_pass(
    make_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_ASKED_AT_ONCE", 1)
    monkeypatch.setattr(Throttling, "limits", replace(AwsProvider.limits, readiness=1))
    fleet = make_fleet(connect_account=Throttling)
    for _ in range(3):
        fleet.drive_to(fleet.create(), "booting")
    Throttling.asked = 0
    with pytest.raises(Throttled):
        watch(fleet.runtime, ACCOUNT, REGION)
    assert Throttling.asked == 1
