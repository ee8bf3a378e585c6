"""What becomes of a formed group when its members change."""

from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from app.db.fleet import cordons
from app.db.schema.tables import budget, lease, lease_secret, quota_claim
from app.domain.budgets import resource_of
from app.domain.ids import GroupId, LeaseId
from app.domain.offerings import OfferingSelector
from tests.db.store import make_budget
from tests.workers.fleet import ACCOUNT, REGION
from tests.workers.groups.group_fleet import GroupFleet


def active(groups: GroupFleet, size: int, **changes: Any) -> tuple[GroupId, list[LeaseId]]:
    group_id = groups.create(size, **changes)
    groups.drive_to(group_id, "active")
    return group_id, groups.ids(group_id)


def test_end_a_lost_member_ends_the_group(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 3)
    groups.kill_vm(leases[1])
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "group_member_lost"
    assert "member 1" in group.reason["message"]
    assert (groups.vms(), groups.fleet.used()) == (0, {})
    assert groups.events(group_id) == ["forming", "active", "member_lost", "releasing", "ended"]


def test_replace_a_lost_vm_is_replaced_in_the_same_pool(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2, on_member_loss="replace")
    pool = groups.group(group_id).pool
    groups.kill_vm(leases[1])
    groups.drive_to(group_id, "degraded")
    group = groups.drive_to(group_id, "active")
    assert (group.pool, groups.ids(group_id)) == (pool, leases)
    assert [one.zone for one in groups.fleet.attempts(leases[1])] == [pool["zone"]] * 2
    assert groups.events(group_id) == ["forming", "active", "member_lost", "degraded", "active"]
    assert groups.counted() == {"gpus": 2, "leases": 2}


def test_replace_waits_while_the_pool_of_the_group_is_cordoned(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2, on_member_loss="replace", lease={"wait_seconds": 600})
    by = {"by": "key_1", "since": "2026-07-01T12:00:00Z", "note": None}
    cordon = {"zone": None, "instance_type": None, "market": None, **by}
    region = OfferingSelector(account=ACCOUNT, region=REGION)
    groups.database.run(cordons.cordon_offerings(region, [cordon]))
    groups.fleet.runtime.catalogue.forget()
    groups.kill_vm(leases[1])
    cordoned = "every offering that fits is cordoned by an operator"
    groups.drive(lambda: (groups.fleet.lease(leases[1]).reason or {}).get("message") == cordoned)
    assert [member.state for member in groups.members(group_id)] == ["active", "queued"]
    groups.database.run(cordons.cordon_offerings(region, []))
    groups.fleet.runtime.catalogue.forget()
    groups.fleet.make_due(leases[1])
    groups.drive(lambda: [member.state for member in groups.members(group_id)] == ["active"] * 2)


def test_replace_a_released_member_gets_a_successor_at_its_rank(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2, on_member_loss="replace", script="#!/bin/sh\n")
    groups.fleet.end(leases[0])
    groups.drive_to(group_id, "degraded")
    groups.drive_to(group_id, "active")
    rows = groups.members(group_id)
    assert [(row.rank, row.state) for row in rows] == [(0, "released"), (0, "active"), (1, "active")]
    assert rows[0].name == rows[1].name
    secrets = select(func.count()).select_from(lease_secret).where(lease_secret.c.startup_script.is_not(None))
    assert groups.database.first(secrets) == (3,)
    groups.set(group_id, desired="end", next_due=func.now())
    groups.drive_to(group_id, "ended")
    assert groups.database.first(secrets) == (0,)
    assert groups.fleet.used() == {}


def test_keep_the_group_goes_on_until_too_few_are_left(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 3, min_size=2, on_member_loss="keep")
    groups.kill_vm(leases[2])
    groups.drive_to(group_id, "degraded")
    groups.drive(lambda: groups.vms() == 2)
    groups.kill_vm(leases[0])
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "group_member_lost"
    assert (groups.vms(), groups.fleet.used()) == (0, {})


def test_the_expiry_of_the_members_ends_the_group(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2)
    past = {"expires_at": text("now() - interval '1 second'"), "next_due": func.now()}
    groups.database.run(update(lease).where(lease.c.id.in_(leases)).values(**past))
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "expired"
    assert (groups.vms(), groups.fleet.used()) == (0, {})


def expire(groups: GroupFleet, lease_id: LeaseId) -> None:
    """The term of one member is over. Those of the others go on."""
    past = {"expires_at": text("now() - interval '1 second'"), "next_due": func.now()}
    groups.database.run(update(lease).where(lease.c.id == lease_id).values(**past))


def test_keep_the_expiry_of_one_member_leaves_those_that_were_extended(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 3, min_size=1, on_member_loss="keep")
    expire(groups, leases[2])
    groups.drive_to(group_id, "degraded")
    groups.drive(lambda: groups.vms() == 2 and groups.counted() == {"gpus": 2, "leases": 2})
    ends = [(one.state, one.reason and one.reason["code"]) for one in groups.members(group_id)]
    assert ends == [("active", None), ("active", None), ("released", "expired")]
    assert groups.events(group_id) == ["forming", "active", "member_lost", "degraded"]


def test_replace_an_expired_member_gets_a_successor_while_others_have_a_later_end(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2, on_member_loss="replace")
    expire(groups, leases[1])
    groups.drive_to(group_id, "degraded")
    groups.drive_to(group_id, "active")
    first, old, new = groups.members(group_id)
    assert (old.reason["code"], new.rank, new.expires_at) == ("expired", 1, first.expires_at)


def test_end_the_expiry_of_one_member_ends_the_others_as_a_loss(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2)
    expire(groups, leases[1])
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "group_member_lost"
    assert [one.reason["code"] for one in groups.members(group_id)] == ["group_member_lost", "expired"]


def test_ranks_stay_when_a_group_grows_and_shrinks(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 4)
    pool = groups.group(group_id).pool
    groups.grow(group_id, 16)
    groups.drive(lambda: [row.state for row in groups.members(group_id)] == ["active"] * 16)
    assert [row.rank for row in groups.members(group_id)] == list(range(16))
    assert groups.group(group_id).state == "active"
    assert {vm["zone"] for vm in groups.fleet.vms()} == {pool["zone"]}
    groups.shrink(group_id, 2)
    groups.drive(lambda: groups.vms() == 2 and groups.counted() == {"gpus": 2, "leases": 2})
    running = [(row.id, row.rank) for row in groups.members(group_id) if row.state == "active"]
    assert running == [(leases[0], 0), (leases[1], 1)]
    assert {row.reason["code"] for row in groups.members(group_id) if row.rank > 1} == {"group_shrunk"}
    assert groups.group(group_id).state == "active"
    assert groups.events(group_id) == ["forming", "active"]


def test_a_member_that_cannot_be_replaced_within_the_quota_ends_the_group(groups: GroupFleet) -> None:
    group_id, leases = active(groups, 2, on_member_loss="replace")
    groups.fleet.limit("gpus", 1)
    groups.fleet.end(leases[1])
    group = groups.drive_to(group_id, "ended")
    assert group.reason["code"] == "quota_exceeded"
    assert (len(groups.members(group_id)), groups.vms(), groups.fleet.used()) == (2, 0, {})


@pytest.mark.parametrize(("on_member_loss", "code"), [("replace", "tenant_suspended"), ("end", "group_member_lost")])
def test_a_lost_vm_of_a_suspended_tenants_group_is_not_replaced(
    groups: GroupFleet, on_member_loss: str, code: str
) -> None:
    group_id, leases = active(groups, 2, on_member_loss=on_member_loss)
    groups.fleet.suspend()
    calls = groups.fleet.runs()
    groups.kill_vm(leases[1])
    assert groups.drive_to(group_id, "ended").reason["code"] == code
    assert (groups.fleet.runs(), len(groups.members(group_id))) == (calls, 2)


# --- budgets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", ["day", "month"])
def test_a_member_is_replaced_in_a_new_period_that_nobody_has_begun(groups: GroupFleet, period: str) -> None:
    budget_id = make_budget(groups.database, groups.fleet.tenant_id, "1000", period=period)
    group_id, leases = active(groups, 2, on_member_loss="replace")
    groups.fleet.end(leases[0])
    groups.drive_to(group_id, "degraded")
    over = {
        "period_started_at": text("now() - interval '62 days'"),
        "period_ends_at": text("now() - interval '1 second'"),
    }
    groups.database.run(update(budget).where(budget.c.id == budget_id).values(**over))
    groups.drive_to(group_id, "active")
    assert groups.counted() == {"gpus": 2, "leases": 2}
    claims = select(quota_claim.c.lease_id).where(quota_claim.c.resource == resource_of(budget_id))
    assert len(groups.database.all(claims)) == 2
    groups.set(group_id, desired="end", next_due=func.now())
    groups.drive_to(group_id, "ended")
    assert groups.fleet.used() == {}
