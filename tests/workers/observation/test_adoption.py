"""A database restored from before the last leases: the hold, adoption from the tags, and going on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import boto3
import pytest
from sqlalchemy import delete, func, text, update

from app.db.schema.tables import attempt, lease
from app.db.tenancy import quotas
from app.domain.budgets import resource_of
from app.domain.ids import LeaseId, TenantId
from app.domain.tags import DEADLINE, TENANT
from tests.db.store import make_budget
from tests.workers.cloud_samples import CloudSample
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.inventory import take_inventory

LABELS = {"example.org/Team": "Größe, 機械 = 1 😀 ", "team": "vision"}


def lost_lease(fleet: Fleet) -> LeaseId:
    """A lease whose VM runs and whose rows are gone."""
    lease_id = fleet.create(ttl=3600, name="train", labels=LABELS)
    fleet.drive_to(lease_id, "active")
    fleet.lose(lease_id)
    return lease_id


def test_a_restored_database_holds_everything_and_adoption_rebuilds_the_lease(fleet: Fleet) -> None:
    kept = fleet.create()
    before = fleet.drive_to(kept, "active")
    lost = lost_lease(fleet)
    newer = fleet.create()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    assert lost in fleet.hold()["reason"], "although a newer lease was created since"
    assert len(fleet.vms()) == 2

    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.resume()
    again = fleet.drive_to(lost, "active")

    assert (again.name, again.labels, again.tenant_id) == ("train", LABELS, fleet.tenant_id)
    assert abs((again.expires_at - before.expires_at).total_seconds()) < 60
    assert again.rate_per_hour > 0
    assert fleet.used()["leases"] == 3
    assert [orphan.state for orphan in fleet.orphans()] == ["adopted"]
    fleet.drive(lambda: fleet.step() == 0)
    assert fleet.hold() is None
    for one in (kept, lost, newer):
        fleet.end(one)
        fleet.drive_to(one, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


def adopt_and_resume(fleet: Fleet) -> None:
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    assert fleet.hold() is not None
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.resume()


def test_a_vm_whose_lease_still_waits_in_the_queue_is_adopted_into_it(fleet: Fleet) -> None:
    lease_id = fleet.active(labels={"team": "vision"})
    (vm,) = fleet.vms()
    fleet.lose_attempts(lease_id)
    adopt_and_resume(fleet)
    assert [one.adopt_error for one in fleet.orphans()] == [None]
    again = fleet.drive_to(lease_id, "active")
    assert again.placement["instance_id"] == vm["id"]
    assert [(one.n, one.state, one.instance_id) for one in fleet.attempts(lease_id)] == [(1, "known", vm["id"])]
    assert fleet.runs() == 1, "nothing was launched for it a second time"
    assert fleet.used()["gpus:A10G"] == 1
    assert again.rate_per_hour > 0
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


@pytest.mark.parametrize(
    ("lose", "first", "second"),
    [(Fleet.lose, "budget", "gpus"), (Fleet.lose_attempts, "gpus:A10G", "leases")],
    ids=["no row", "queued"],
)
def test_an_adoption_and_a_step_do_not_wait_in_a_circle_for_quota(
    fleet: Fleet, lose: Callable[[Fleet, LeaseId], None], first: str, second: str
) -> None:
    """The step has locked one of its rows, and goes on to the next in their order."""
    database = fleet.runtime.database
    resource = {"budget": resource_of(make_budget(database, fleet.tenant_id, "100"))}
    lease_id = fleet.active()
    lose(fleet, lease_id)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    lock = text("SELECT FROM quota WHERE resource = :resource FOR UPDATE")
    with ThreadPoolExecutor(1) as thread:
        with database.begin() as step:
            step.execute(lock, {"resource": resource.get(first, first)})
            adopting = thread.submit(take_inventory, fleet.runtime, ACCOUNT, REGION)
            fleet.wait_for(lambda: bool(database.all(text("SELECT FROM pg_locks WHERE NOT granted"))))
            step.execute(lock, {"resource": second})
        adopting.result(10)
    assert [orphan.state for orphan in fleet.orphans()] == ["adopted"]


def test_a_vm_that_ran_while_its_rows_were_lost_is_paid_for_and_counts_towards_the_cap(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.lose_attempts(lease_id, max_cost=Decimal(1))
    fleet.let_pass(600)
    adopt_and_resume(fleet)
    row = fleet.drive_to(lease_id, "active")
    (attempt,) = fleet.attempts(lease_id)
    assert row.rate_since == row.billing_started_at == attempt.billing_started_at
    assert (fleet.now() - row.rate_since).total_seconds() > 600
    lasts = timedelta(hours=float(1 / row.rate_per_hour))
    assert abs(row.cost_reached_at - row.rate_since - lasts) < timedelta(milliseconds=1)


def test_a_lost_attempts_number_makes_no_second_vm_when_it_is_used_again(
    start_at_cloud: Callable[..., Fleet], cloud: CloudSample
) -> None:
    """The VM was not to be seen as long as the installation was on hold."""
    fleet = start_at_cloud()
    lease_id = fleet.active(**cloud.request)
    (vm,) = fleet.vms()
    fleet.lose_attempts(lease_id)
    fleet.step()
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert [one["id"] for one in fleet.vms()] == [vm["id"]]
    assert [(one.n, one.state) for one in fleet.attempts(lease_id)] == [(1, "known")]
    assert fleet.hold() is None
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


def test_the_attempts_before_the_adopted_one_are_filled_in_as_dead(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "error", code="InsufficientInstanceCapacity", times=2)
    lease_id = fleet.active()
    assert len(fleet.attempts(lease_id)) == 3
    fleet.lose_attempts(lease_id)
    adopt_and_resume(fleet)
    fleet.drive_to(lease_id, "active")
    assert [(one.n, one.state) for one in fleet.attempts(lease_id)] == [(1, "dead"), (2, "dead"), (3, "known")]


def test_a_vm_whose_lease_is_being_released_is_adopted_into_it_and_ended(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.lose_attempts(lease_id)
    fleet.end(lease_id)
    adopt_and_resume(fleet)
    fleet.drive_to(lease_id, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


def test_a_vm_whose_lease_has_another_attempt_under_way_is_not_adopted(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "error", code="InsufficientInstanceCapacity", times=1)
    lease_id = fleet.active()
    attempts = fleet.attempts(lease_id)
    with fleet.runtime.database.begin() as connection:
        connection.execute(delete(attempt).where(attempt.c.id == attempts[1].id))
        earlier = {"state": "sent", "ended_at": None, "clean": False, "error": None}
        connection.execute(update(attempt).where(attempt.c.id == attempts[0].id).values(**earlier))
        connection.execute(update(lease).where(lease.c.id == lease_id).values(attempts_count=1, state="provisioning"))
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert "attempt 1 of the lease is under way" in orphan.adopt_error


def test_a_vm_whose_lease_has_ended_is_not_adopted(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.lose_attempts(lease_id, state="failed", desired="end", ended_at=func.now(), next_due=None)
    fleet.runtime.database.run(quotas.release(lease_id))
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert "has ended" in orphan.adopt_error


@pytest.mark.parametrize("missing", [TENANT, DEADLINE])
def test_an_orphan_that_cannot_be_adopted_says_why(fleet: Fleet, missing: str) -> None:
    lost_lease(fleet)
    (vm,) = fleet.vms()
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=fleet.sim.url)
    ec2.delete_tags(Resources=[vm["id"]], Tags=[{"Key": missing}])
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert orphan.state == "seen"
    assert "do not name tenant, lease, attempt and deadline" in orphan.adopt_error


def test_a_copy_is_not_adopted_in_place_of_the_vm_that_was_launched(fleet: Fleet) -> None:
    lost = lost_lease(fleet)
    (genuine,) = fleet.vms()
    fleet.plant(tags=genuine["tags"])
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.resume()
    assert fleet.drive_to(lost, "active").placement["instance_id"] == genuine["id"]
    assert {one.cause: one.state for one in fleet.orphans()}["lost_row"] == "adopted"
    fleet.drive(lambda: [vm["id"] for vm in fleet.vms()] == [genuine["id"]])


def test_a_vm_of_a_tenant_that_does_not_exist_is_not_adopted(fleet: Fleet) -> None:
    lost = lost_lease(fleet)
    (vm,) = fleet.vms()
    stranger = TenantId("tenant_01m7wh00000000000000000000")
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=fleet.sim.url)
    ec2.create_tags(Resources=[vm["id"]], Tags=[{"Key": TENANT, "Value": stranger}])
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert stranger in orphan.adopt_error
    assert fleet.lease(lost) is None
