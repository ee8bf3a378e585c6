"""Statements about volumes: claims of leases, the work of the job, the end with its quota, and the inventory's notes."""

from typing import Any

import pytest
from sqlalchemy import insert, select, update

from app.db.core.ids import new_id
from app.db.fleet import volumes
from app.db.schema.tables import lease, quota, volume
from app.db.tenancy.quotas import RECOUNT
from app.domain.volumes import VolumeState
from tests.db.store import ENDED, Store, ago, together

PLACE = {"provider": "aws", "account": "main", "region": "us-east-1", "zone": "us-east-1a"}
REFUSED = {"code": "provider_error", "message": "No.", "origin": "provider", "retryable": False}


@pytest.fixture
def counted(store: Store) -> Store:
    """A store whose tenant has the row of quota for volumes."""
    store.run(insert(quota).values(tenant_id=store.tenant_id, resource="volume_gib", used=0))
    return store


def make(store: Store, name: str = "data", **values: Any) -> str:
    """A volume of the tenant, free and available unless `values` say otherwise. Counts its quota."""
    volume_id = new_id("vol")
    disk = {
        "state": "available",
        "cloud_id": f"disk-{volume_id}",
        "billing_started_at": ago("1 hour"),
        "retry_at": None,
    }
    facts = {"id": volume_id, "tenant_id": store.tenant_id, "key_id": "key_x", "name": name, "size_gib": 10, **PLACE}
    store.run(insert(volume).values(**{**facts, **disk, **values}))
    own = (quota.c.tenant_id == store.tenant_id, quota.c.resource == "volume_gib")
    store.run(update(quota).where(*own).values(used=quota.c.used + 10))
    return volume_id


def used(store: Store) -> int:
    row = store.first(
        select(quota.c.used).where(quota.c.resource == "volume_gib", quota.c.tenant_id == store.tenant_id)
    )
    return int(row.used) if row is not None else -1


def take(store: Store, name: str, lease_id: str) -> int:
    """Claims as the admission does. Answers how many volumes the lease got."""
    with store.database.begin() as connection:
        rows = connection.execute(volumes.named(store.tenant_id, [name], lock=True)).all()
        held = connection.execute(volumes.claim([row.id for row in rows], lease_id, within=store.tenant_id))
        return held.rowcount


def test_of_many_leases_that_claim_a_volume_at_once_exactly_one_gets_it(counted: Store) -> None:
    make(counted)
    leases = [
        counted.lease(request={"ttl_seconds": 60, "volumes": [{"name": "data", "path": "/d"}]}) for _ in range(16)
    ]
    got = together(16, lambda number: take(counted, "data", leases[number]))
    assert sorted(got) == [0] * 15 + [1]
    (row,) = counted.rows(volume)
    assert row.lease_id == leases[got.index(1)]


def test_a_claim_ends_once_and_the_next_lease_gets_the_volume(counted: Store) -> None:
    make(counted)
    wish = {"ttl_seconds": 60, "volumes": [{"name": "data", "path": "/d"}]}
    first, second = counted.lease(request=wish), counted.lease(request=wish)
    assert take(counted, "data", first) == 1
    assert [row.name for row in counted.all(volumes.of_lease(first))] == ["data"]
    counted.run(volumes.release(first))
    counted.run(update(lease).where(lease.c.id == first).values(**ENDED))
    (row,) = counted.rows(volume)
    assert (row.lease_id, row.last_lease_id) == (None, first)
    assert row.last_used_at is not None
    assert take(counted, "data", second) == 1
    counted.run(volumes.release(first))
    (row,) = counted.rows(volume)
    assert row.lease_id == second


@pytest.mark.parametrize("state", ["creating", "deleting"])
def test_a_volume_that_is_not_available_is_not_claimed(counted: Store, state: str) -> None:
    make(counted, state=state)
    assert take(counted, "data", counted.lease()) == 0


def test_a_volume_in_use_is_not_deleted(counted: Store) -> None:
    volume_id = make(counted)
    lease_id = counted.lease(request={"ttl_seconds": 60, "volumes": [{"name": "data", "path": "/d"}]})
    take(counted, "data", lease_id)
    assert counted.all(volumes.request_deletion(volume_id, None, within=counted.tenant_id)) == []
    counted.run(volumes.release(lease_id))
    assert counted.all(volumes.request_deletion(volume_id, None, within="tenant_x")) == []
    (row,) = counted.all(volumes.request_deletion(volume_id, "req", within=counted.tenant_id))
    assert (row.state, row.request_id) == ("deleting", "req")


def test_a_name_is_free_again_when_its_volume_has_ended(counted: Store) -> None:
    facts = {"tenant_id": counted.tenant_id, "key_id": "key_x", "name": "data", "size_gib": 10, **PLACE}
    volume_id = make(counted, state="deleting")
    assert counted.all(volumes.add({"id": new_id("vol"), **facts})) == []
    counted.all(volumes.end(volume_id, VolumeState.DELETED))
    (row,) = counted.all(volumes.add({"id": new_id("vol"), **facts}))
    assert row.state == "creating"
    counted.run(update(quota).values(used=10))
    assert counted.all(volumes.count_live(counted.tenant_id)) == [(1,)]


def test_a_disk_is_recorded_once_and_then_available(counted: Store) -> None:
    volume_id = make(counted, state="creating", cloud_id=None, billing_started_at=None, retry_at=ago("1 minute"))
    assert [row.id for row in counted.all(volumes.due("main", "us-east-1", 10))] == [volume_id]
    counted.run(volumes.mark_sent(volume_id, VolumeState.CREATING, 30))
    assert counted.all(volumes.due("main", "us-east-1", 10)) == []
    counted.run(volumes.make_available(volume_id))
    assert counted.row(volume, volume_id).state == "creating", "no disk is recorded"
    counted.run(volumes.record_disk(volume_id, cloud_id="vol-1", kind="gp3"))
    counted.run(volumes.record_disk(volume_id, cloud_id="vol-2", kind="gp3"))
    counted.run(volumes.make_available(volume_id))
    row = counted.row(volume, volume_id)
    assert (row.state, row.cloud_id, row.kind, row.tries, row.retry_at) == ("available", "vol-1", "gp3", 0, None)
    assert row.billing_started_at == row.charged_until is not None


@pytest.mark.parametrize(
    ("state", "to"), [("creating", "failed"), ("deleting", "deleted"), ("available", "lost"), ("creating", "lost")]
)
def test_the_end_returns_the_quota_once_and_stops_the_bill(counted: Store, state: str, to: str) -> None:
    volume_id = make(counted, state=state)
    make(counted, "other")
    assert counted.all(volumes.end(volume_id, VolumeState(to), REFUSED)) == [(volume_id,)]
    assert counted.all(volumes.end(volume_id, VolumeState(to), REFUSED)) == []
    row = counted.row(volume, volume_id)
    assert (row.state, row.reason) == (to, REFUSED)
    assert row.billing_ended_at == row.ended_at is not None
    assert used(counted) == 10
    assert counted.all(RECOUNT) == []


def test_a_refused_volume_was_never_billed(counted: Store) -> None:
    volume_id = make(counted, state="creating", cloud_id=None, billing_started_at=None)
    counted.all(volumes.end(volume_id, VolumeState.FAILED, REFUSED))
    row = counted.row(volume, volume_id)
    assert (row.billing_started_at, row.billing_ended_at) == (None, None)


def test_an_available_volume_is_not_ended_as_deleted(counted: Store) -> None:
    volume_id = make(counted)
    assert counted.all(volumes.end(volume_id, VolumeState.DELETED)) == []
    assert used(counted) == 10


def test_tenants_take_turns_however_many_volumes_one_of_them_has(counted: Store) -> None:
    for number in range(20):
        make(counted, f"v{number}", state="creating", cloud_id=None, retry_at=ago("1 hour"))
    late = counted.tenant_id = counted.tenant()
    counted.run(insert(quota).values(tenant_id=late, resource="volume_gib", used=0))
    make(counted, state="deleting", retry_at=ago("1 minute"))
    assert late in {row.tenant_id for row in counted.all(volumes.due("main", "us-east-1", 2))}


def test_the_inventory_notes_when_a_disk_was_missing_first(counted: Store) -> None:
    volume_id = make(counted, seen_at=ago("1 hour"))
    (now,) = counted.all(select(volumes.NOW.label("now")))
    counted.run(volumes.note_missing([volume_id], now.now))
    counted.run(volumes.note_missing([volume_id], now.now.replace(year=now.now.year + 1)))
    assert counted.row(volume, volume_id).missing_since == now.now
    counted.run(volumes.note_seen([volume_id], now.now))
    assert counted.row(volume, volume_id).missing_since is None
    counted.run(volumes.note_missing([volume_id], now.now))
    assert counted.row(volume, volume_id).missing_since is None, "it was seen since that listing began"


def test_the_inventory_sees_live_volumes_of_its_regions_alone(counted: Store) -> None:
    volume_id = make(counted)
    gone = make(counted, "gone", state="deleting")
    counted.all(volumes.end(gone, VolumeState.DELETED))
    make(counted, "elsewhere", region="eu-west-1")
    assert [row.id for row in counted.all(volumes.live_in("main", ["us-east-1"]))] == [volume_id]
    assert {row.state for row in counted.all(volumes.states_of([volume_id, gone]))} == {"available", "deleted"}
