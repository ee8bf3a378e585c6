"""What is past its time is deleted, and nothing else."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, insert, select, text, update

from app.db.events import events
from app.db.operations import purge
from app.db.schema.tables import (
    api_key,
    attempt,
    attempt_archive,
    audit,
    event,
    idempotency,
    launch_batch,
    lease,
    lease_console,
    lease_group,
    orphan,
    quota_claim,
    volume,
)
from app.domain.events import LeaseRebooting
from app.domain.ids import LeaseId
from tests.db.store import ENDED, Store, ago, make_budget


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
        store.run(events.append(store.tenant_id, events.NewEvent(LeaseRebooting(), f"e{number}")))
    store.run(update(event).where(event.c.request_id != "e2").values(at=ago("91 days")))
    store.run(update(event).where(event.c.request_id == "e0").values(sequence=1))
    clean(store)
    assert sorted(row.request_id for row in store.rows(event)) == ["e1", "e2"]


def test_batches_are_kept_90_days_and_as_long_as_their_attempts(store: Store) -> None:
    place = {"provider": "aws", "account": "sim", "region": "us-east-1", "zone": "us-east-1a"}
    facts = {"tenant_id": store.tenant_id, "slots": 1, "params": {"UserData": "script"}, "params_hash": "0" * 16}
    for name, age in (("new", "89 days"), ("old", "91 days"), ("needed", "91 days"), ("sent", "91 days")):
        store.run(insert(launch_batch).values(id=name, token=name, **place, **facts, created_at=ago(age)))
    store.attempt(store.lease(), "refused", ended_at=ago("91 days"), batch_id="needed", batch_index=0)
    store.attempt(store.lease(), "sent", batch_id="sent", batch_index=0)
    clean(store)
    assert {row.id: row.params is None for row in store.rows(launch_batch)} == {
        "new": True,
        "needed": True,
        "sent": False,
    }


def test_groups_are_kept_90_days_after_their_end_and_as_long_as_their_members(store: Store) -> None:
    terms = {"size": 1, "min_size": 1, "form_seconds": 60, "lease": {}, "placement": "any", "interconnect": "none"}
    terms |= {"tenant_id": store.tenant_id, "on_member_loss": "end", "wait_until": ago("99 days")}
    for name, state, age in (("new", "ended", "89 days"), ("old", "ended", "91 days"), ("kept", "ended", "91 days")):
        times = {"created_at": ago("99 days"), "ended_at": ago(age), "next_due": None}
        store.run(insert(lease_group).values(id=name, name=name, state=state, **terms, **times))
    store.run(insert(lease_group).values(id="runs", name="runs", created_at=ago("99 days"), **terms))
    store.run(update(lease).where(lease.c.id == store.lease()).values(group_id="kept", rank=0, **ENDED))
    clean(store)
    assert sorted(row.id for row in store.rows(lease_group)) == ["kept", "new", "runs"]


def test_the_audit_trail_is_kept_400_days(store: Store) -> None:
    made = {"tenant_id": store.tenant_id, "principal": "key_x", "role": "admin", "action": "key.create"}
    for name, age in (("audit_1_old", "401 days"), ("audit_2_new", "399 days")):
        store.run(insert(audit).values(id=name, at=ago(age), **made))
    clean(store)
    assert [row.id for row in store.rows(audit)] == ["audit_2_new"]


def test_keys_are_kept_400_days_after_their_end_and_as_long_as_their_budgets(store: Store) -> None:
    long_ago, lately = ago("401 days"), ago("399 days")
    ends: dict[str, dict[str, Any]] = {
        "live": {"created_at": ago("999 days")},
        "revoked": {"revoked_at": long_ago},
        "revoked_lately": {"revoked_at": lately},
        "expired": {"expires_at": long_ago, "revoked_at": lately},
        "expired_lately": {"expires_at": lately},
        "with_budget": {"revoked_at": long_ago},
    }
    for name, times in ends.items():
        hashed = {"name": name, "role": "member", "secret_hash": name.encode()}
        store.run(insert(api_key).values(id=name, tenant_id=store.tenant_id, **hashed, **times))
    make_budget(store.database, store.tenant_id, "1", kind="key", key_id="with_budget")
    clean(store)
    kept_keys = {row.id for row in store.rows(api_key)}
    assert kept_keys == {"live", "revoked_lately", "expired_lately", "with_budget"}


def test_volumes_are_kept_400_days_after_their_end_and_as_long_as_they_exist(store: Store) -> None:
    place = dict.fromkeys(("key_id", "provider", "account", "region", "zone"), "x")
    for name, state, ended_at in (
        ("free", "creating", None),
        ("late", "deleted", ago("399 days")),
        ("old", "deleted", ago("401 days")),
        ("refused", "failed", ago("401 days")),
    ):
        facts = {"id": name, "name": name, "size_gib": 1, "state": state, "ended_at": ended_at}
        store.run(insert(volume).values(tenant_id=store.tenant_id, created_at=ago("999 days"), **facts, **place))
    clean(store)
    assert {row.id for row in store.rows(volume)} == {"free", "late"}


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
        store.run(insert(orphan).values(**place, instance_id=name, cause="copied_tags", state=state, **times))
    clean(store)
    assert sorted(row.instance_id for row in store.rows(orphan)) == ["late", "open"]


COST = text(
    """
    SELECT tenant_id, date_trunc('month', billing_ended_at) AS month,
           sum(price_per_hour * extract(epoch FROM billing_ended_at - billing_started_at) / 3600) AS usd
    FROM (SELECT tenant_id, price_per_hour, billing_started_at, billing_ended_at FROM attempt
          UNION ALL SELECT tenant_id, price_per_hour, billing_started_at, billing_ended_at FROM attempt_archive) a
    WHERE billing_ended_at IS NOT NULL GROUP BY 1, 2
    """
)
"""As docs/operations.md has it."""
OLD = {**ENDED, "created_at": ago("92 days"), "ended_at": ago("91 days")}
BILLED = {
    "clean": True,
    "billing_started_at": ago("92 days"),
    "billing_ended_at": ago("91 days"),
    "ended_at": ago("91 days"),
}


def purge_leases(store: Store, limit: int = 100) -> int:
    return store.changed(purge.leases(days=90, limit=limit))


def kept(store: Store, lease_id: str) -> bool:
    return store.row(lease, lease_id) is not None


def old_lease(store: Store, **values: Any) -> LeaseId:
    """A lease that was billed, and ended 91 days ago."""
    lease_id = store.lease(**{**OLD, "cost_closed": Decimal(36), **values})
    store.attempt(lease_id, "dead", instance_id=f"i-{lease_id}", first_sent_at=ago("92 days"), params=None, **BILLED)
    return lease_id


def test_ended_leases_are_kept_90_days_and_what_they_cost_for_ever(store: Store) -> None:
    old = old_lease(store)
    store.attempt(old, "refused", first_sent_at=ago("91 days"), ended_at=ago("91 days"), clean=True, params=None)
    store.run(insert(lease_console).values(lease_id=old, tenant_id=store.tenant_id, n=1, text="hello"))
    young = old_lease(store, ended_at=ago("89 days"))
    before = store.all(COST)
    assert purge_leases(store) == 1
    assert (kept(store, old), kept(store, young)) == (False, True)
    assert [row.lease_id for row in store.rows(attempt)] == [young]
    assert store.rows(lease_console) == []
    assert store.all(COST) == before
    [archived] = store.rows(attempt_archive)
    assert (archived.lease_id, archived.n, archived.instance_id) == (old, 1, f"i-{old}")
    assert archived.billing_ended_at - archived.billing_started_at == timedelta(days=1)
    assert purge_leases(store) == 0


def test_a_bounded_number_of_leases_is_purged_at_once_the_oldest_first(store: Store) -> None:
    leases = [old_lease(store, created_at=ago(f"{100 + number} days")) for number in range(5)]
    assert purge_leases(store, limit=2) == 2
    assert [kept(store, lease_id) for lease_id in leases] == [True, True, True, False, False]


def test_a_lease_whose_vm_may_live_is_never_purged(store: Store) -> None:
    """Rows precede VMs: while one of them may live, its lease's rows are the proof of what it is."""
    live = store.lease(created_at=ago("9 years"))
    unclean = store.lease(**OLD)
    store.attempt(unclean, "dead", instance_id="i-1", ended_at=ago("91 days"), clean=False)
    running = store.lease(**OLD)
    store.attempt(running, "known", params=None)
    sighted = old_lease(store)
    vm = {"account": "main", "region": "r", "provider": "aws", "zone": "z", "instance_type": "t", "market": "spot"}
    store.run(insert(orphan).values(**vm, instance_id="i-2", tags={}, cause="ended_lease", lease_id=sighted))
    claiming = old_lease(store)
    claim = {"lease_id": claiming, "tenant_id": store.tenant_id, "resource": "leases", "amount": 1}
    store.run(insert(quota_claim).values(**claim))
    assert purge_leases(store) == 0
    assert all(kept(store, one) for one in (live, unclean, running, sighted, claiming))
    for statement in (
        update(orphan).values(state="gone"),
        delete(quota_claim),
        delete(attempt).where(attempt.c.lease_id.in_([unclean, running])),
        update(lease).where(lease.c.id.in_([unclean, running])).values(attempts_count=0),
    ):
        store.run(statement)
    assert purge_leases(store) == 4


def test_a_lease_that_somebody_changes_is_purged_later(store: Store) -> None:
    first, second = old_lease(store), old_lease(store)
    with store.database.begin() as connection:
        connection.execute(select(lease.c.id).where(lease.c.id == first).with_for_update())
        assert purge_leases(store) == 1
    assert (kept(store, first), kept(store, second)) == (True, False)
