"""Workers tell what nobody did."""

from sqlalchemy import text, update

from app.db.schema.tables import event, lease, orphan, quota
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.notices import tell
from workers.jobs.runner import PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs
from workers.observation.inventory import take_inventory


def told(fleet: Fleet, name: str) -> list[dict[str, object]]:
    rows = fleet.runtime.database.all(event.select().where(event.c.type == name).order_by(event.c.row_id))
    return [{"tenant_id": row.tenant_id, "lease_id": row.lease_id, **row.data} for row in rows]


def test_the_end_of_a_lease_and_a_quota_nearly_used_are_told_by_a_periodic_job(fleet: Fleet) -> None:
    database = fleet.runtime.database
    lease_id = fleet.create(ttl=600)
    database.run(update(lease).where(lease.c.id == lease_id).values(created_at=text("now() - interval '1 hour'")))
    database.run(update(quota).where(quota.c.resource == "gpus").values(limit=1))
    every = job_specs(fleet.runtime.settings).notices
    ensure_jobs(fleet.runtime, every)
    assert PeriodicRunner(fleet.runtime, every).run_one()
    expires_at = fleet.lease(lease_id).expires_at.isoformat().replace("+00:00", "Z")
    owner = {"tenant_id": fleet.tenant_id}
    ends = {"expires_at": expires_at, "ends_at": expires_at, "seconds": 1800}
    assert told(fleet, "lease.expiring_soon") == [{**owner, "lease_id": lease_id, **ends}]
    assert told(fleet, "quota.nearly_used") == [{**owner, "lease_id": None, "resource": "gpus", "limit": 1, "used": 1}]
    assert tell(fleet.runtime, ACCOUNT, REGION) == 0


def test_the_end_of_an_orphan_is_told_to_the_tenant_whose_lease_it_was(fleet: Fleet) -> None:
    database = fleet.runtime.database
    lease_id = fleet.create()
    seen = {"account": ACCOUNT, "region": REGION, "provider": "aws", "zone": f"{REGION}a", "instance_type": "g5.xlarge"}
    about = {**seen, "market": "spot", "tags": {}, "cause": "ended_lease", "end_requested_at": text("now()")}
    for instance_id, owner in (("i-1", lease_id), ("i-2", None), ("i-3", "lease_01jz0000000000000000000000")):
        database.run(orphan.insert().values(**about, instance_id=instance_id, lease_id=owner))
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (one,) = told(fleet, "orphan.ended")
    assert (one["tenant_id"], one["lease_id"], one["instance_id"]) == (fleet.tenant_id, lease_id, "i-1")
    assert (one["region"], one["cause"], one["ended_by_us"]) == (REGION, "ended_lease", True)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    assert len(told(fleet, "orphan.ended")) == 1
    assert database.first(lease.select()) is not None


def test_a_spend_cap_that_is_nearly_used_up_is_told_once(fleet: Fleet) -> None:
    database = fleet.runtime.database
    near, far = fleet.create(), fleet.create(name="u")
    for lease_id, closed in ((near, 8), (far, 7)):
        database.run(update(lease).where(lease.c.id == lease_id).values(max_cost=10, cost_closed=closed))
    assert [tell(fleet.runtime, ACCOUNT, REGION) for _ in range(2)] == [1, 0]
    (one,) = told(fleet, "lease.cap_near")
    assert (one["lease_id"], one["max_cost"], one["accrued"]) == (near, "10.00", "8.00")
