"""A group forms in one pool, whole or not at all."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func

from app.db.fleet import cordons
from app.domain.groups.groups import Pool
from app.domain.offerings import OfferingSelector
from tests.failpoints.actions import FailpointError
from tests.workers.fleet import ACCOUNT, REGION
from tests.workers.groups.group_fleet import GroupFleet
from workers.groups import coordinator


def test_a_group_launches_together_and_becomes_active(groups: GroupFleet) -> None:
    group_id = groups.create(3, script="#!/bin/sh\n")
    group = groups.drive_to(group_id, "active")
    pool = Pool.from_json(group.pool)
    assert (pool.account, pool.region, pool.instance_type) == ("sim", "us-east-1", "g5.xlarge")
    assert [member.state for member in groups.members(group_id)] == ["active"] * 3
    assert {attempt.zone for one in groups.ids(group_id) for attempt in groups.fleet.attempts(one)} == {pool.zone}
    assert groups.events(group_id) == ["forming", "active"]
    assert (groups.vms(), groups.fleet.runs()) == (3, 1)


def test_a_group_forms_in_no_cordoned_zone(groups: GroupFleet) -> None:
    first = Pool.from_json(groups.drive_to(groups.create(2), "active").pool).zone
    by = {"by": "key_1", "since": "2026-07-01T12:00:00Z", "note": None}
    cordon = {"zone": first, "instance_type": None, "market": None, **by}
    groups.database.run(cordons.cordon_offerings(OfferingSelector(account=ACCOUNT, region=REGION), [cordon]))
    groups.fleet.runtime.catalogue.forget()
    with groups.fleet.other_tenant():
        second = groups.create(2)
    assert Pool.from_json(groups.drive_to(second, "active").pool).zone != first


def test_too_few_vms_are_given_back_before_the_next_pool_is_tried(groups: GroupFleet) -> None:
    groups.fleet.sim.settings(boot_seconds=0.1)
    group_id = groups.create(8, lease={"wait_seconds": 600})
    groups.fleet.step()
    first = groups.group(group_id).pool["zone"]
    groups.fleet.sim.capacity(7, zone=first, instance_type="g5.xlarge")
    groups.drive(lambda: groups.vms() == 7)
    assert groups.group(group_id).state == "forming"
    groups.time_out(group_id)
    groups.drive(lambda: groups.group(group_id).state == "queued")
    groups.drive(lambda: groups.group(group_id).state == "forming")
    assert groups.vms() == 0, "nothing is held when another pool is tried"
    group = groups.drive_to(group_id, "active")
    assert [entry["zone"] for entry in group.pools_tried] == [first]
    assert group.pool["zone"] != first
    assert groups.events(group_id) == ["forming", "pool_failed", "forming", "active"]
    assert groups.vms() == 8
    assert {vm["zone"] for vm in groups.fleet.vms()} == {group.pool["zone"]}
    assert {reason for zone, reason, *_ in groups.fleet.cooling() if zone == first} == {"no_capacity"}


def test_a_member_without_a_vm_launches_no_more_in_a_pool_that_has_failed(groups: GroupFleet) -> None:
    group_id = groups.create(4, lease={"wait_seconds": 600})
    groups.fleet.step()
    groups.fleet.sim.capacity(3, instance_type="g5.xlarge")
    groups.drive(lambda: groups.vms() == 3)
    groups.drive(lambda: "queued" in {member.state for member in groups.members(group_id)})
    groups.time_out(group_id)
    coordinator.Coordinator(groups.fleet.runtime).sweep()
    assert groups.group(group_id).pool is None
    held = [(one.state, one.group_pool is not None, one.group_retreat) for one in groups.members(group_id)]
    assert [one for one in held if one[0] == "queued"] == [("queued", False, False)]
    assert [one[1:] for one in held if one[0] != "queued"] == [(True, True)] * 3


@pytest.mark.parametrize("min_size", [2, 1])
def test_idleness_counts_from_the_formation_of_the_group(groups: GroupFleet, min_size: int) -> None:
    groups.fleet.sim.capacity(min_size, instance_type="g5.xlarge")
    group_id = groups.create(
        2, min_size=min_size, lease={"idle": {"after_seconds": 900, "action": "end"}, "proof": "off"}
    )
    groups.drive(lambda: "active" in {member.state for member in groups.members(group_id)})
    if min_size < 2:
        assert {member.keep_until for member in groups.members(group_id)} == {None}
        groups.time_out(group_id)
    formed = groups.drive_to(group_id, "active", "degraded").formed_at
    kept = [one.keep_until - formed for one in groups.members(group_id) if one.state == "active"]
    assert kept == [timedelta(seconds=900)] * min_size


def test_a_group_that_forms_nowhere_ends_and_holds_nothing(groups: GroupFleet) -> None:
    groups.fleet.sim.capacity(1, instance_type="g5.xlarge")
    group_id = groups.create(2)

    def tried_all() -> bool:
        if groups.group(group_id).state == "forming" and groups.vms():
            groups.time_out(group_id)
        return bool(groups.group(group_id).state == "ended")

    groups.drive(tried_all)
    group = groups.group(group_id)
    assert group.reason["code"] == "capacity_exhausted"
    assert {member.state for member in groups.members(group_id)} == {"failed"}
    assert (groups.vms(), groups.fleet.used(), group.next_due) == (0, {}, None)
    assert groups.events(group_id)[-2:] == ["releasing", "ended"]


def test_enough_members_go_on_without_the_missing(groups: GroupFleet) -> None:
    group_id = groups.create(3, min_size=2)
    groups.fleet.step()
    groups.fleet.sim.capacity(2, instance_type="g5.xlarge")
    groups.drive(lambda: sum(member.state == "active" for member in groups.members(group_id)) == 2)
    groups.time_out(group_id)
    group = groups.drive_to(group_id, "degraded")
    assert group.reason["code"] == "group_incomplete"
    groups.drive(lambda: groups.counted() == {"gpus": 2, "leases": 2})
    states = sorted(member.state for member in groups.members(group_id))
    assert (states, groups.vms()) == (["active", "active", "failed"], 2)
    groups.drive(lambda: groups.fleet.step() == 0)
    assert groups.events(group_id) == ["forming", "degraded"]


def test_create_calls_without_an_answer_are_settled_before_the_next_pool(groups: GroupFleet) -> None:
    """The VMs of the lost call exist. They are found and ended, and nothing is launched twice."""
    groups.fleet.sim.fault("RunInstances", "lose_reply", times=None)
    group_id = groups.create(2, lease={"wait_seconds": 600})
    groups.drive(lambda: groups.vms() == 2)
    groups.time_out(group_id)
    groups.drive(lambda: groups.group(group_id).state == "queued")
    groups.fleet.sim.clear_faults()
    group = groups.drive_to(group_id, "active")
    assert len(group.pools_tried) == 1
    assert groups.vms() == 2
    assert {vm["zone"] for vm in groups.fleet.vms()} == {group.pool["zone"]}
    assert groups.fleet.orphans() == []


def test_a_group_that_is_released_while_it_forms_holds_nothing(groups: GroupFleet) -> None:
    groups.fleet.sim.capacity(1, instance_type="g5.xlarge")
    group_id = groups.create(2)
    groups.drive(lambda: groups.vms() == 1)
    groups.set(group_id, desired="end", next_due=func.now())
    groups.drive_to(group_id, "ended")
    assert (groups.vms(), groups.fleet.used(), groups.fleet.orphans()) == (0, {}, [])


def test_a_group_is_taken_over_after_a_kill_between_any_two_steps(
    groups: GroupFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator dies after each of its commits. Another one goes on."""
    groups.fleet.may_break_off = True
    killed: list[object] = []

    def then_die(self: coordinator.Coordinator, *given: Any) -> None:
        killed.append(step(self, *given))
        raise FailpointError

    step = coordinator.Coordinator._step
    monkeypatch.setattr(coordinator.Coordinator, "_step", then_die)
    monkeypatch.setattr(coordinator, "_AFTER_A_BUG", timedelta(seconds=0.1))
    group_id = groups.create(2)
    groups.drive_to(group_id, "active")
    groups.fleet.end(groups.ids(group_id)[0])
    groups.drive_to(group_id, "ended")
    assert len(killed) >= 4
    assert groups.events(group_id) == ["forming", "active", "member_lost", "releasing", "ended"]
    assert (groups.vms(), groups.fleet.used(), groups.fleet.orphans()) == (0, {}, [])
