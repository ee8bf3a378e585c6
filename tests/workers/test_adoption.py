"""A database restored from before the last leases: the hold, adoption from the tags, and going on."""

from app.domain.ids import LeaseId, TenantId
from app.domain.tags import TENANT
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.inventory import take_inventory


def lost_lease(fleet: Fleet) -> LeaseId:
    """A lease whose VM runs and whose rows are gone."""
    lease_id = fleet.create(ttl=3600, name="train", labels={"team": "vision"})
    fleet.drive_to(lease_id, "active")
    fleet.lose(lease_id)
    return lease_id


def test_a_restored_database_holds_everything_and_adoption_rebuilds_the_lease(fleet: Fleet) -> None:
    kept = fleet.create()
    before = fleet.drive_to(kept, "active")
    lost = lost_lease(fleet)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    assert "newer than this database" in fleet.hold()["reason"]
    assert len(fleet.vms()) == 2

    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.resume()
    again = fleet.drive_to(lost, "active")

    assert (again.name, again.labels, again.tenant_id) == ("train", {"team": "vision"}, fleet.tenant_id)
    assert abs((again.expires_at - before.expires_at).total_seconds()) < 60
    assert again.rate_per_hour > 0
    assert fleet.used()["leases"] == 2
    assert [orphan.state for orphan in fleet.orphans()] == ["adopted"]
    fleet.drive(lambda: fleet.step() == 0)
    assert fleet.hold() is None
    for one in (kept, lost):
        fleet.end(one)
        fleet.drive_to(one, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


def test_an_orphan_that_cannot_be_adopted_says_why(fleet: Fleet) -> None:
    fleet.create()
    tags = {"gpulease-installation": fleet.runtime.installation.id}
    fleet.plant(tags=tags)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert orphan.state == "seen"
    assert "do not name tenant, lease, attempt" in orphan.adopt_error


def test_a_vm_of_a_tenant_that_does_not_exist_is_not_adopted(fleet: Fleet) -> None:
    lost = lost_lease(fleet)
    (vm,) = fleet.vms()
    fleet.sim.stop(vm["id"])
    stranger = TenantId("tenant_01m7wh00000000000000000000")
    fleet.plant(tags={**vm["tags"], TENANT: stranger})
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    (orphan,) = fleet.orphans()
    assert stranger in orphan.adopt_error
    assert fleet.lease(lost) is None
