"""Getting at a VM: who may come in, rebooting it, what it printed when it did not boot, the token for its host keys."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text

from app.db.leases import reboots
from app.db.schema.tables import attempt, lease_console
from app.domain.ids import LeaseId
from app.domain.tokens import host_key_hash, host_key_token
from tests.cloudsim.clock import ManualClock
from tests.workers.conftest import QUICK
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.leftovers import sweep_leftovers

NETWORKS = ["203.0.113.0/24", "2001:db8::/32"]


def groups(fleet: Fleet) -> list[dict[str, Any]]:
    return [one for one in fleet.sim.resources() if one["kind"] == "security_group"]


def sweep(fleet: Fleet) -> int:
    return sweep_leftovers(fleet.runtime, ACCOUNT, REGION)


# --- who may come in --------------------------------------------------------------------------------------


def test_a_lease_with_allowed_networks_has_a_group_as_long_as_its_vm(fleet: Fleet) -> None:
    lease_id = fleet.create(allowed_cidrs=NETWORKS)
    fleet.drive_to(lease_id, "active")
    (group,) = groups(fleet)
    assert group["tags"]["gpulease-lease"] == lease_id
    assert sweep(fleet) == 0, "a group in use stays"
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert fleet.sim.resources() == []


def test_without_allowed_networks_leases_share_a_group_that_is_made_once(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.drive_to(fleet.create(allowed_cidrs=None), "active")
    assert groups(fleet) == []
    assert fleet.sim.calls()["CreateSecurityGroup"] == 1
    assert "AuthorizeSecurityGroupIngress" not in fleet.sim.calls()
    assert sweep(fleet) == 0


def test_refused_attempts_leave_no_group(fleet: Fleet) -> None:
    fleet.sim.capacity(0)
    fleet.drive_to(fleet.create(allowed_cidrs=NETWORKS), "failed")
    assert fleet.sim.calls()["CreateSecurityGroup"] == fleet.runs() > 1
    assert groups(fleet) == []


def test_a_lost_answer_to_the_group_or_to_the_launch_makes_one_of_each(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=30.0)
    for call in ("CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "RunInstances"):
        fleet.sim.fault(call, "lose_reply", times=1)
    lease_id = fleet.create(allowed_cidrs=NETWORKS)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert len(groups(fleet)) == len(fleet.sim.instances()) == 1
    assert [a.n for a in fleet.attempts(lease_id)] == [1]


def test_a_group_that_will_not_go_holds_no_lease_up_and_is_swept_later(fleet: Fleet) -> None:
    lease_id = fleet.create(allowed_cidrs=NETWORKS)
    fleet.drive_to(lease_id, "active")
    fleet.sim.fault("DeleteSecurityGroup", "error", code="DependencyViolation", times=None)
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert len(groups(fleet)) == 1
    assert sweep(fleet) == 0
    fleet.sim.clear_faults()
    assert sweep(fleet) == 1
    assert groups(fleet) == []


def test_an_attempt_that_only_made_its_group_is_declared_dead(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create(allowed_cidrs=NETWORKS)
    fleet.drive(lambda: any(a.state == "settling" for a in fleet.attempts(lease_id)))
    assert len(groups(fleet)) == 1
    assert sweep(fleet) == 0, "the attempt is not over"
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    sweep(fleet)
    assert groups(fleet) == []


def test_the_sweep_removes_a_disk_that_turned_up_late_and_touches_nobody_elses(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    tags = dict(fleet.vms()[0]["tags"])
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    late, unknown, foreign = (
        fleet.make_address({**tags, **changes})
        for changes in ({}, {"gpulease-attempt": "7"}, {"gpulease-installation": "another"})
    )
    assert sweep(fleet) == 1
    assert {one["id"] for one in fleet.sim.resources()} == {unknown, foreign}, late


def test_what_a_lost_lease_has_left_is_removed_when_it_lies_unused_for_longer_than_the_grace(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    tags = dict(fleet.vms()[0]["tags"])
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    fleet.lose(lease_id)
    fleet.make_address(tags)
    clock = ManualClock()
    runtime = replace(fleet.runtime, monotonic=clock)

    def sweep_at(seconds: float) -> int:
        clock.now = seconds
        return sweep_leftovers(runtime, ACCOUNT, REGION)

    grace = runtime.settings.rowless_grace_seconds
    assert sweep_at(0) == 0
    assert sweep_at(grace - 1) == 0
    fleet.put_on_hold()
    assert sweep_at(grace) == 0
    fleet.resume()
    assert sweep_at(2 * grace) == 0, "the grace begins anew after a hold"
    assert sweep_at(3 * grace) == 1
    assert fleet.sim.resources() == []


def test_nothing_is_swept_while_the_installation_is_on_hold(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    tags = dict(fleet.vms()[0]["tags"])
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    fleet.make_address(tags)
    fleet.runtime.database.run(text("""UPDATE installation SET hold = '{"reason": "test"}'"""))
    assert sweep(fleet) == 0
    fleet.resume()
    assert sweep(fleet) == 1


def test_without_a_public_address_the_private_one_is_shown(fleet: Fleet) -> None:
    connection = fleet.drive_to(fleet.create(public_ip=False), "active").connection
    assert connection["public_ip"] is None
    assert connection["ssh_command"] == f"ssh ubuntu@{connection['private_ip']}"


# --- rebooting --------------------------------------------------------------------------------------------


def ask_for_reboot(fleet: Fleet, lease_id: LeaseId) -> None:
    """What the API does."""
    fleet.runtime.database.run(reboots.request(lease_id, None, within=None))


def sent(fleet: Fleet) -> int:
    return fleet.sim.calls().get("RebootInstances", 0)


def pending(fleet: Fleet, lease_id: LeaseId) -> bool:
    return fleet.lease(lease_id).reboot_requested_at is not None


def test_a_reboot_is_sent_once_and_told(fleet: Fleet) -> None:
    lease_id = fleet.active()
    ask_for_reboot(fleet, lease_id)
    fleet.drive(lambda: not pending(fleet, lease_id))
    for _ in range(3):
        fleet.step()
    assert sent(fleet) == 1
    assert fleet.events(lease_id)[-2:] == ["lease.rebooting", "lease.rebooted"]
    assert fleet.lease(lease_id).state == "active"


def test_a_throttled_reboot_is_sent_later(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.sim.fault("RebootInstances", "throttle", times=1)
    ask_for_reboot(fleet, lease_id)
    fleet.drive(lambda: not pending(fleet, lease_id))
    assert fleet.events(lease_id)[-1] == "lease.rebooted"
    assert sent(fleet) == 2


def test_a_refused_reboot_is_told_and_not_tried_again(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.sim.fault("RebootInstances", "error", code="IncorrectState", times=1)
    ask_for_reboot(fleet, lease_id)
    fleet.drive(lambda: not pending(fleet, lease_id))
    assert fleet.events(lease_id)[-1] == "lease.reboot_failed"
    assert sent(fleet) == 1


def test_a_reboot_that_nobody_answers_is_given_up_after_five_minutes(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.sim.fault("RebootInstances", "error", code="InternalError", times=None)
    ask_for_reboot(fleet, lease_id)
    fleet.drive(lambda: sent(fleet) == 1)
    assert pending(fleet, lease_id)
    age = text("UPDATE lease SET reboot_requested_at = now() - interval '6 minutes', next_due = now()")
    fleet.runtime.database.run(age)
    fleet.runtime.database.run(text("UPDATE attempt SET retry_at = NULL"))
    fleet.drive(lambda: not pending(fleet, lease_id))
    assert fleet.events(lease_id)[-1] == "lease.reboot_failed"


def test_a_lease_that_is_not_active_takes_no_reboot(fleet: Fleet) -> None:
    lease_id = fleet.create()
    ask_for_reboot(fleet, lease_id)
    assert not pending(fleet, lease_id)


def test_a_release_goes_before_a_reboot(fleet: Fleet) -> None:
    lease_id = fleet.active()
    ask_for_reboot(fleet, lease_id)
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert sent(fleet) == 0


# --- console ----------------------------------------------------------------------------------------------


def consoles(fleet: Fleet) -> list[Any]:
    return fleet.runtime.database.all(select(lease_console))


@pytest.fixture
def never_ready(make_fleet: Callable[..., Fleet]) -> Fleet:
    """VMs run and never pass their checks."""
    fleet = make_fleet(boot_timeout=0.5, **QUICK)
    fleet.sim.fault("boot", "hang", times=None)
    return fleet


def test_what_a_vm_printed_that_never_became_ready_is_kept(never_ready: Fleet) -> None:
    lease_id = never_ready.create()
    assert never_ready.drive_to(lease_id, "failed").reason["code"] == "boot_timeout"
    (kept,) = consoles(never_ready)
    assert (kept.lease_id, kept.n, kept.tenant_id) == (lease_id, 1, never_ready.tenant_id)
    assert "Linux version" in kept.text
    assert "\x1b" not in kept.text
    assert "\r" not in kept.text


@pytest.mark.parametrize("mode", ["error", "throttle", "hang"])
def test_a_console_that_cannot_be_read_holds_no_release_up_and_is_asked_for_once(never_ready: Fleet, mode: str) -> None:
    never_ready.sim.fault("GetConsoleOutput", mode, times=None, delay_seconds=5)
    never_ready.drive_to(never_ready.create(), "failed")
    assert never_ready.sim.calls()["GetConsoleOutput"] == 1
    assert consoles(never_ready) == []


def test_the_console_of_a_vm_that_ends_as_wished_is_not_read(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert "GetConsoleOutput" not in fleet.sim.calls()


# --- host keys --------------------------------------------------------------------------------------------


def test_each_attempt_stores_what_its_vms_token_is_checked_with(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(public_url="https://gpu.example.org")
    lease_id = fleet.active()
    installation = fleet.runtime.installation
    token = host_key_token(installation.token_key, installation.id, lease_id, 1)
    (row,) = fleet.runtime.database.all(select(attempt))
    assert row.host_key_hash == host_key_hash(token)
    assert token != row.token


def test_without_a_public_address_of_ours_vms_get_no_token(fleet: Fleet) -> None:
    fleet.active()
    (row,) = fleet.runtime.database.all(select(attempt))
    assert row.host_key_hash is None


def test_a_replacement_starts_without_the_keys_of_the_vm_before(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(public_url="https://gpu.example.org")
    lease_id = fleet.create(market="spot", on_interruption="replace", wait_seconds=60)
    fleet.drive_to(lease_id, "active")
    fleet.runtime.database.run(text("""UPDATE lease SET ssh_host_keys = '["ssh-ed25519 AAAA"]'"""))
    fleet.sim.interrupt(fleet.vms()[0]["id"], 0)
    fleet.drive(lambda: fleet.lease(lease_id).attempts_count == 2)
    assert fleet.lease(lease_id).ssh_host_keys is None
    fleet.drive_to(lease_id, "active")
