"""Leases of one tenant that want the same VM are launched with one create call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select

from app.db.core.ids import new_id
from app.db.schema.tables import launch_batch
from app.domain.ids import TenantId
from tests.workers.fleet import Fleet

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPBLvpGMa8Ck+CZFsl3sHC4vtX5kV3fMw9vMkKPmXYT"


def created(fleet: Fleet, count: int, **changes: Any) -> list[Any]:
    return [fleet.create(name=f"t{number}", **changes) for number in range(count)]


@contextmanager
def other_tenant(fleet: Fleet) -> Iterator[None]:
    """Leases that are created inside belong to a new tenant."""
    first, fleet.tenant_id = fleet.tenant_id, TenantId(new_id("tenant"))
    fleet._make_tenant()
    yield
    fleet.tenant_id = first


def drive_all(fleet: Fleet, leases: list[Any], *states: str) -> None:
    fleet.drive(lambda: all(fleet.lease(lease_id).state in states for lease_id in leases))


def batches(fleet: Fleet) -> list[Any]:
    return fleet.runtime.database.all(select(launch_batch).order_by(launch_batch.c.id))


def test_twenty_leases_of_a_tenant_take_one_call(fleet: Fleet) -> None:
    leases = created(fleet, 20)
    drive_all(fleet, leases, "active")
    assert (fleet.runs(), len(fleet.vms())) == (1, 20)
    [batch] = batches(fleet)
    assert (batch.slots, batch.params) == (20, None)
    assert len({fleet.attempts(lease_id)[0].instance_id for lease_id in leases}) == 20


def test_two_tenants_share_no_call(fleet: Fleet) -> None:
    leases = created(fleet, 3)
    with other_tenant(fleet):
        leases += created(fleet, 3)
    drive_all(fleet, leases, "active")
    assert (fleet.runs(), len(fleet.vms())) == (2, 6)
    assert sorted(batch.slots for batch in batches(fleet)) == [3, 3]
    assert len({batch.tenant_id for batch in batches(fleet)}) == 2


def test_other_requests_share_no_call(fleet: Fleet) -> None:
    leases = [*created(fleet, 2), *created(fleet, 2, disk_gib=120), *created(fleet, 2, ssh_public_keys=[KEY])]
    drive_all(fleet, leases, "active")
    assert (fleet.runs(), len(batches(fleet))) == (3, 3)


def test_a_lone_lease_has_no_batch(fleet: Fleet) -> None:
    fleet.active()
    assert (fleet.runs(), batches(fleet)) == (1, [])


def test_the_setting_switches_batches_off(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(launch_batch=1)
    leases = created(fleet, 3)
    drive_all(fleet, leases, "active")
    assert (fleet.runs(), batches(fleet)) == (3, [])


def test_vms_get_tags_of_their_own(fleet: Fleet) -> None:
    leases = created(fleet, 3)
    drive_all(fleet, leases, "active")
    fleet.observe()
    assert {(vm["tags"]["gpulease-lease"], vm["tags"]["Name"]) for vm in fleet.vms()} == {
        (lease_id, f"t{number}") for number, lease_id in enumerate(leases)
    }
