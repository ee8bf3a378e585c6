"""Groups form in one pool or not at all, and handle the loss of members."""

from tests.workers.fleet import REGION, Fleet
from tests.workers.groups.planted import Groups

FIRST = f"{REGION}a"


def held(fleet: Fleet) -> int:
    """Leases that count against the quota. Each has one GPU."""
    used = fleet.used()
    assert used.get("gpus", 0) == used.get("leases", 0)
    return used.get("leases", 0)


def nothing_held(fleet: Fleet) -> bool:
    return not fleet.vms() and not fleet.used()


def test_a_group_forms_in_one_zone_with_one_call(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(4)
    groups.drive_to(group_id, "active")
    assert groups.ranks(group_id, "active") == [0, 1, 2, 3]
    assert len(groups.zones(group_id)) == 1
    assert (fleet.runs(), len(fleet.vms())) == (1, 4)
    assert groups.events(group_id) == ["queued", "forming", "active"]
    groups.end(group_id)
    groups.drive_to(group_id, "ended")
    assert nothing_held(fleet)
    assert groups.events(group_id)[-1] == "ended"


def test_what_is_short_in_one_zone_forms_in_another_and_nothing_stays_behind(fleet: Fleet, groups: Groups) -> None:
    fleet.sim.capacity(3, region=REGION, zone=FIRST)
    group_id = groups.create(4, form_seconds=3)
    group = groups.drive_to(group_id, "active")
    assert group.pool["zone"] != FIRST
    assert [one["zone"] for one in group.pools_tried] == [FIRST]
    assert groups.zones(group_id) == {group.pool["zone"]}
    assert len(fleet.vms()) == 4
    assert held(fleet) == 4
    assert groups.events(group_id) == ["queued", "forming", "pool_failed", "forming", "active"]


def test_a_group_that_finds_no_pool_holds_nothing(fleet: Fleet, groups: Groups) -> None:
    fleet.sim.capacity(3, region=REGION)
    group_id = groups.create(4, form_seconds=2, wait=0)
    group = groups.drive_to(group_id, "ended")
    assert (group.reason["code"], group.formed_at) == ("capacity_exhausted", None)
    assert nothing_held(fleet)
    assert "active" not in groups.events(group_id)


def test_enough_members_go_on_without_the_others(fleet: Fleet, groups: Groups) -> None:
    fleet.sim.capacity(3, region=REGION)
    group_id = groups.create(4, min_size=3, form_seconds=2)
    groups.drive_to(group_id, "degraded")
    fleet.drive(
        lambda: len(groups.members(group_id, "active")) == 3 and len(groups.members(group_id, "releasing")) == 0
    )
    assert len(fleet.vms()) == 3
    assert groups.row(group_id).reason["code"] == "group_incomplete"
    assert held(fleet) == 3


def kill(fleet: Fleet, groups: Groups, group_id: str, rank: int) -> None:
    """Somebody ends the VM of a member outside gpulease."""
    member = next(row for row in groups.members(group_id, "active") if row.rank == rank)  # type: ignore[arg-type]
    fleet.sim.stop(fleet.attempts(member.id)[-1].instance_id)


def test_the_group_ends_with_a_lost_member(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(3, on_member_loss="end")
    groups.drive_to(group_id, "active")
    kill(fleet, groups, group_id, 1)
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "group_member_lost"
    assert nothing_held(fleet)


def test_a_lost_member_is_replaced_in_the_same_pool(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(3, on_member_loss="replace")
    pool = groups.drive_to(group_id, "active").pool
    kill(fleet, groups, group_id, 1)
    groups.drive_to(group_id, "degraded")
    group = groups.drive_to(group_id, "active")
    assert group.pool == pool
    assert groups.ranks(group_id, "active") == [0, 1, 2]
    assert groups.zones(group_id) == {pool["zone"]}
    fleet.drive(lambda: len(fleet.vms()) == 3)
    assert held(fleet) == 3
    assert "member_lost" in groups.events(group_id)


def test_a_group_keeps_on_without_a_lost_member_and_ends_below_its_least_size(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(3, min_size=2, on_member_loss="keep")
    groups.drive_to(group_id, "active")
    kill(fleet, groups, group_id, 2)
    groups.drive_to(group_id, "degraded")
    assert groups.ranks(group_id, "active") == [0, 1]
    kill(fleet, groups, group_id, 0)
    groups.drive_to(group_id, "ended")
    assert nothing_held(fleet)


def test_growing_and_shrinking_keep_the_first_ranks(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(2, min_size=1)
    groups.drive_to(group_id, "active")
    first = [row.id for row in groups.members(group_id, "active")]
    groups.resize(group_id, 6)
    fleet.drive(lambda: len(groups.members(group_id, "active")) == 6)
    groups.drive_to(group_id, "active")
    assert len(groups.zones(group_id)) == 1
    groups.resize(group_id, 2)
    fleet.drive(lambda: len(fleet.vms()) == 2 and held(fleet) == 2)
    assert [row.id for row in groups.members(group_id, "active")] == first
    assert groups.drive_to(group_id, "active").size == 2


def test_a_group_ends_with_its_term(fleet: Fleet, groups: Groups) -> None:
    group_id = groups.create(2, ttl=4)
    groups.drive_to(group_id, "active")
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "expired"
    assert nothing_held(fleet)
