"""A database restored from an earlier state of a group: its members' VMs run, and the group takes them back or loses them."""

import pytest
from sqlalchemy import delete

from app.db.schema.tables import launch_batch, lease_group
from app.domain.groups.groups import Pool
from app.domain.ids import GroupId, LeaseId
from tests.workers.fleet import ACCOUNT, REGION
from tests.workers.groups.group_fleet import GroupFleet
from workers.observation.inventory import take_inventory


def formed(groups: GroupFleet, size: int, placement: str = "same_zone") -> tuple[GroupId, list[LeaseId]]:
    """An active group whose VMs have tags of their own."""
    group_id = groups.create(size, placement=placement, lease={"wait_seconds": 600})
    groups.drive_to(group_id, "active")
    groups.fleet.drive_to_own_tags()
    return group_id, groups.ids(group_id)


def set_back(groups: GroupFleet, group_id: GroupId, **pool: object) -> None:
    """The database is that of a time before the members were launched: in the queue, or in a pool."""
    for lease_id in groups.ids(group_id):
        groups.fleet.lose_attempts(lease_id, group_pool=pool or None)
    groups.database.run(delete(launch_batch))
    start = groups.group(group_id).pool_started_at if pool else None
    state = "forming" if pool else "queued"
    groups.set(group_id, state=state, pool=pool or None, pool_started_at=start, formed_at=None)


def adopt(groups: GroupFleet) -> None:
    take_inventory(groups.fleet.runtime, ACCOUNT, REGION)
    assert groups.fleet.hold() is not None
    groups.fleet.adopt()
    take_inventory(groups.fleet.runtime, ACCOUNT, REGION)


def adopt_and_resume(groups: GroupFleet) -> None:
    adopt(groups)
    groups.fleet.resume()


@pytest.mark.parametrize("placement", ["any", "same_zone"])
def test_a_group_in_the_queue_forms_where_the_vms_of_its_members_run(groups: GroupFleet, placement: str) -> None:
    group_id, leases = formed(groups, 3, placement)
    before = groups.group(group_id)
    vms, runs = {vm["id"] for vm in groups.fleet.vms()}, groups.fleet.runs()
    set_back(groups, group_id)
    adopt_and_resume(groups)
    assert [orphan.adopt_error for orphan in groups.fleet.orphans()] == [None] * 3
    group = groups.drive_to(group_id, "active")
    assert (Pool.from_json(group.pool), group.pools_tried) == (Pool.from_json(before.pool), [])
    assert {groups.fleet.attempts(lease_id)[-1].instance_id for lease_id in leases} == vms
    assert (groups.fleet.runs(), groups.counted()) == (runs, {"gpus": 3, "leases": 3})
    assert groups.events(group_id)[-2:] == ["forming", "active"]


def test_a_member_whose_vm_is_gone_is_launched_beside_the_others(groups: GroupFleet) -> None:
    group_id, leases = formed(groups, 3)
    pool = groups.group(group_id).pool
    groups.kill_vm(leases[2])
    set_back(groups, group_id)
    adopt_and_resume(groups)
    groups.drive_to(group_id, "active")
    assert groups.group(group_id).pool == pool
    assert (groups.vms(), {vm["zone"] for vm in groups.fleet.vms()}) == (3, {pool["zone"]})


def test_a_group_whose_form_time_passed_while_its_rows_were_lost_keeps_its_vms(groups: GroupFleet) -> None:
    group_id, leases = formed(groups, 2)
    vms, pool = {vm["id"] for vm in groups.fleet.vms()}, groups.group(group_id).pool
    set_back(groups, group_id, **pool)
    groups.fleet.let_pass(groups.group(group_id).form_seconds + 60)
    adopt_and_resume(groups)
    group = groups.drive_to(group_id, "active")
    assert (group.pool, group.pools_tried) == (pool, [])
    assert {groups.fleet.attempts(lease_id)[-1].instance_id for lease_id in leases} == vms


def test_a_vm_outside_of_the_pool_is_not_adopted(groups: GroupFleet) -> None:
    """The group left this pool in the restored state, and it came back to it in the time that is lost."""
    group_id, _ = formed(groups, 2)
    pool = groups.group(group_id).pool
    other = {**pool, "zone": next(f"{REGION}{zone}" for zone in "ab" if f"{REGION}{zone}" != pool["zone"])}
    lost = [vm["id"] for vm in groups.fleet.vms()]
    set_back(groups, group_id, **other)
    adopt(groups)
    assert {str(orphan.adopt_error) for orphan in groups.fleet.orphans()} == {
        f"its group {group_id} forms in another pool: end this VM"
    }
    assert groups.vms() == 2
    for vm_id in lost:
        groups.fleet.sim.stop(vm_id)
    groups.fleet.wait_for(lambda: all(vm["ended_at"] for vm in groups.fleet.sim.instances()))
    groups.fleet.observe()
    groups.fleet.resume()
    group = groups.drive_to(group_id, "active")
    assert (groups.vms(), {vm["zone"] for vm in groups.fleet.vms()}) == (2, {group.pool["zone"]})


def test_a_lost_group_leaves_single_leases(groups: GroupFleet) -> None:
    group_id, leases = formed(groups, 2)
    vms = {vm["id"] for vm in groups.fleet.vms()}
    for lease_id in leases:
        groups.fleet.lose(lease_id)
    for table in (launch_batch, lease_group):
        groups.database.run(delete(table))
    adopt_and_resume(groups)
    for lease_id in leases:
        lease = groups.fleet.drive_to(lease_id, "active")
        assert (lease.group_id, lease.rank) == (None, None)
    assert {vm["id"] for vm in groups.fleet.vms()} == vms
    assert groups.members(group_id) == []
