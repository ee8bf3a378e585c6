"""The judge of disks finds each way in which the disk of a volume can be wrong, and nothing else."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from sqlalchemy import func, insert

from app.db.schema.tables import volume
from app.domain.tags import LEASE, VOLUME
from tests.db.store import Store
from tests.e2e.cloud import Cloud, Json
from tests.e2e.volume_truth import NOTHING, Excused, volume_problems
from workers.runtime.database import WorkerDatabase

PLACE = {"provider": "aws", "account": "main", "region": "us-east-1", "zone": "us-east-1a", "size_gib": 10}
EARLY, MIDDLE, LATE = (f"2026-11-20T12:1{minute}:00.000Z" for minute in range(3))
ENDED: dict[str, Any] = {"ended_at": func.now(), "retry_at": None}


class Clouds:
    """A cloud's record of disks and VMs."""

    def __init__(self, disks: list[Json], vms: list[Json]) -> None:
        self._disks, self._vms = disks, vms
        self.vanished: set[str] = set()

    def disks(self) -> list[Json]:
        return self._disks

    def vms(self) -> list[Json]:
        return self._vms


def disk(volume_id: str = "vol_1", *vms: tuple[str, str], number: int = 1, **facts: Any) -> Json:
    had = [{"id": vm, "at": at} for vm, at in vms]
    known = {"id": f"disk-{number}", "tags": {VOLUME: volume_id}, "vms": had, "deleted_at": None, "deleted_with": None}
    return {**known, **facts}


def vm(vm_id: str, lease_id: str, ended_at: str | None = None) -> Json:
    return {"id": vm_id, "tags": {LEASE: lease_id}, "ended_at": ended_at}


class Case:
    """A database with one lease, which mounts `data`, and what the judge says of it."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self.database = WorkerDatabase(database_url, pool_size=1)
        self._store = Store(self.database)
        self.lease_id = str(
            self._store.lease(request={"ttl_seconds": 3600, "volumes": [{"name": "data", "path": "/d"}]})
        )

    def row(self, volume_id: str = "vol_1", *, tenant_id: str | None = None, **facts: Any) -> None:
        own = {"id": volume_id, "tenant_id": tenant_id or self._store.tenant_id, "key_id": "key_x", "name": "data"}
        self._store.run(insert(volume).values(**{**PLACE, **own, "state": "available", "cloud_id": "disk-1", **facts}))

    def stranger(self) -> str:
        return str(self._store.tenant())

    def wrong(self, *things: Json, vanished: str | None = None, excused: Excused = NOTHING) -> set[str]:
        """What is found of these disks and VMs."""
        disks = [thing for thing in things if "vms" in thing]
        cloud = Clouds(disks, [thing for thing in things if "vms" not in thing])
        cloud.vanished |= {vanished} if vanished else set()
        found = volume_problems(cast(Cloud, cloud), self._url, excused)
        return {what for what, lines in found.items() if lines}


@pytest.fixture
def case(database_url: str) -> Iterator[Case]:
    made = Case(database_url)
    yield made
    made.database.close()


def test_a_disk_that_one_vm_of_its_lease_had_after_the_other_is_well(case: Case) -> None:
    case.row()
    first, second = vm("vm-1", case.lease_id, MIDDLE), vm("vm-2", case.lease_id)
    assert case.wrong(disk("vol_1", ("vm-1", EARLY), ("vm-2", LATE)), first, second) == set()
    assert case.wrong(disk("vol_1", ("vm-1", EARLY), ("vm-2", EARLY)), first, second) == {"disks attached twice"}


def test_a_volume_has_its_disk_until_it_is_deleted_unless_somebody_else_deleted_that(case: Case) -> None:
    case.row()
    case.row("vol_2", state="creating", cloud_id=None, name="new")
    gone = disk(deleted_at=LATE)
    assert case.wrong(disk()) == set()
    assert case.wrong() == case.wrong(gone) == {"disks lost"}
    assert case.wrong(gone, vanished="disk-1") == case.wrong(gone, excused=Excused(set_back={"vol_1"})) == set()
    assert case.wrong(disk(deleted_at=LATE, deleted_with="vm-1")) == {"disks lost", "disks deleted with a VM"}


@pytest.mark.parametrize(("state", "what"), [("lost", "disks lost"), ("deleted", "disks of volumes that are over")])
def test_a_volume_that_is_over_has_no_disk_and_none_is_lost(case: Case, state: str, what: str) -> None:
    case.row(state=state, **ENDED)
    assert case.wrong(disk()) == {what}
    assert case.wrong(disk(deleted_at=LATE)) == {what} - {"disks of volumes that are over"}


def test_a_volume_has_one_disk_ever(case: Case) -> None:
    case.row()
    assert case.wrong(disk(), disk(number=2, deleted_at=LATE)) == {"disks doubled"}


def test_a_disk_has_a_row_unless_the_database_lost_it_and_stays_then(case: Case) -> None:
    lost = Excused(unknown={"vol_9"})
    assert case.wrong(disk("vol_9")) == {"disks without a row"}
    assert case.wrong(disk("vol_9"), excused=lost) == set()
    assert case.wrong(disk("vol_9", deleted_at=LATE), excused=lost) == {"disks of lost rows deleted"}


def test_a_disk_is_at_vms_of_leases_of_its_tenant_that_asked_for_it(case: Case) -> None:
    case.row(name="another")
    had, mine = disk("vol_1", ("vm-1", EARLY)), vm("vm-1", case.lease_id)
    assert case.wrong(had, mine) == {"disks attached for another lease"}
    assert case.wrong(had, mine, excused=Excused(leases={case.lease_id})) == set()


def test_a_disk_is_never_at_a_vm_of_another_tenant(case: Case) -> None:
    case.row(tenant_id=case.stranger())
    had, mine = disk("vol_1", ("vm-1", EARLY)), vm("vm-1", case.lease_id)
    lost = Excused(leases={case.lease_id})
    assert case.wrong(had, mine) == case.wrong(had, mine, excused=lost) == {"disks attached for another lease"}
