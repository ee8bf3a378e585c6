"""Steps of the tests of launch batches."""

from typing import Any

from sqlalchemy import select

from app.db.schema.tables import launch_batch
from tests.workers.fleet import ACCOUNT, REGION, Fleet


def created(fleet: Fleet, count: int, **changes: Any) -> list[Any]:
    return [fleet.create(name=f"t{number}", **changes) for number in range(count)]


def batches(fleet: Fleet) -> list[Any]:
    return fleet.runtime.database.all(select(launch_batch).order_by(launch_batch.c.id))


def planned_together(fleet: Fleet, count: int, **changes: Any) -> list[Any]:
    """Leases whose attempts are planned and wait for company."""
    leases = created(fleet, count, **changes)
    fleet.step()
    assert [fleet.attempts(lease_id)[0].state for lease_id in leases] == ["planned"] * count
    return leases


def led_together(fleet: Fleet, **changes: Any) -> list[Any]:
    """Two of them, the leader first: only its attempt has parameters."""
    leases = planned_together(fleet, 2, **changes)
    return sorted(leases, key=lambda lease_id: fleet.attempts(lease_id)[0].params is None)


def send_batch(fleet: Fleet) -> None:
    """Lets the leader send."""
    before = fleet.runs()
    fleet.drive(lambda: fleet.runs() > before)


def states(fleet: Fleet, leases: list[Any]) -> list[list[str]]:
    return [[one.state for one in fleet.attempts(lease_id)] for lease_id in leases]


def each_vm_is_in_its_slot(fleet: Fleet, leases: list[Any]) -> bool:
    rows = [fleet.attempts(lease_id)[0] for lease_id in leases]
    vms = fleet.runtime.accounts.provider(ACCOUNT).get(REGION, [row.instance_id for row in rows])
    slots = [vm.batch if (vm := vms[row.instance_id]) else None for row in rows]
    return slots == [(row.batch_id, row.batch_index) for row in rows]
