"""Ended leases are deleted after a while; what their VMs were is known all the same."""

from sqlalchemy import text, update

from app.db.schema.tables import attempt, attempt_archive, lease
from tests.workers.fleet import Fleet
from workers.jobs.housekeeping import forget_old


def age(fleet: Fleet, days: int) -> None:
    """As if everything had happened so many days earlier."""
    past = text(f"interval '{days} days'")
    for table in (lease, attempt):
        times = {column.name: column - past for column in table.c if column.name.endswith("_at")}
        fleet.runtime.database.run(update(table).values(times))


def test_a_vm_of_a_purged_lease_is_ended_at_once_and_holds_nothing(fleet: Fleet) -> None:
    lease_id = fleet.active()
    [vm] = fleet.vms()
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    age(fleet, 91)
    assert forget_old(fleet.runtime) > 0
    assert fleet.lease(lease_id) is None
    assert [row.instance_id for row in fleet.runtime.database.all(attempt_archive.select())] == [vm["id"]]
    [late] = fleet.plant(tags=vm["tags"], token=vm["token"])
    fleet.drive(lambda: not fleet.is_alive(late))
    [orphan] = fleet.orphans()
    assert (orphan.cause, orphan.lease_id) == ("ended_lease", lease_id)
    assert fleet.hold() is None


def test_a_lease_is_kept_as_long_as_the_setting_says(fleet: Fleet) -> None:
    lease_id = fleet.active()
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    age(fleet, 89)
    forget_old(fleet.runtime)
    assert fleet.lease(lease_id) is not None
