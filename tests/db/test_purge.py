"""What is past its time is deleted, and nothing else."""

from typing import Any

from sqlalchemy import insert, select, text, update

from app.db import events, purge
from app.db.tables import event, idempotency, lease, orphan
from tests.db.store import Store, ago


def clean(store: Store) -> None:
    for statement in purge.STATEMENTS:
        store.run(statement)


def test_idempotency_records_are_kept_72_hours(store: Store) -> None:
    for key, age in (("kept", "71 hours"), ("old", "73 hours")):
        row: dict[str, Any] = {"scope": store.tenant_id, "key": key, "route": "r", "body_hash": b"", "status": 201}
        store.run(insert(idempotency).values(**row, response={}, created_at=ago(age)))
    clean(store)
    assert [row.key for row in store.rows(idempotency)] == ["kept"]


def test_events_are_kept_90_days_and_until_they_are_numbered(store: Store) -> None:
    for number in range(3):
        store.run(events.append(store.tenant_id, events.NewEvent(type=f"e{number}")))
    store.run(update(event).where(event.c.type != "e2").values(at=ago("91 days")))
    store.run(update(event).where(event.c.type == "e0").values(sequence=1))
    clean(store)
    assert sorted(row.type for row in store.rows(event)) == ["e1", "e2"]


def test_ended_orphans_are_kept_30_days_and_open_ones_for_ever(store: Store) -> None:
    place = {
        "account": "main",
        "region": "r",
        "provider": "aws",
        "zone": "z",
        "instance_type": "t",
        "market": "spot",
        "tags": {},
    }
    for name, state, age in (("open", "seen", "99 days"), ("late", "gone", "29 days"), ("old", "gone", "31 days")):
        times = {"last_seen_at": ago(age), "gone_at": ago(age) if state == "gone" else None}
        store.run(insert(orphan).values(**place, instance_id=name, cause="no_row", state=state, **times))
    clean(store)
    assert sorted(row.instance_id for row in store.rows(orphan)) == ["late", "open"]


def test_leases_are_never_purged(store: Store) -> None:
    lease_id = store.lease()
    store.write(lease, lease_id, created_at=ago("9 years"))
    clean(store)
    assert store.first(select(text("1")).where(lease.c.id == lease_id)) is not None
