"""Statements that make, end or free something do nothing on another PostgreSQL cluster or timeline than the stored one."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import insert, text

from app.db.fleet import jobs, orphans
from app.db.leases import attempts, claims, process_locks
from app.db.operations import ops
from app.db.schema import cluster
from app.db.schema.tables import account, attempt, lease
from tests.db.store import Store, ago
from workers.runtime.process_locks import free_of_the_dead

CHANGES = ["system_identifier = '1'", "timeline = timeline + 1", "timeline = NULL"]


@pytest.fixture(autouse=True)
def known_cluster(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The running cluster is stored, and the tests' server may have been started a moment ago."""
    store.run(cluster.remember())
    without_pause = text(str(process_locks.FREE).replace("- interval '10 seconds'", ""))
    monkeypatch.setattr(process_locks, "FREE", without_pause)


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def store_another(store: Store, change: str) -> None:
    store.run(text(f"UPDATE installation SET {change}"))


def is_known(store: Store) -> bool:
    return bool(store.all(cluster.compare())[0].is_known)


def test_a_create_call_needs_the_known_cluster(store: Store, change: str) -> None:
    lease_id = store.lease()
    attempt_id, claim_id = store.attempt(lease_id), store.claimed(lease_id)
    store_another(store, change)
    send = attempts.send(attempt_id, claim_id, call_seconds=1, hold_seconds=60)
    assert store.first(send) is None
    assert store.row(attempt, attempt_id).state == "planned"
    store.run(ops.LIFT_HOLD)
    assert store.first(send) is not None


def test_no_orphan_is_due_on_another_cluster(store: Store, change: str) -> None:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    names = ("instance_id", "zone", "instance_type", "market", "cause")
    facts = dict(zip(names, ("i-1", "a", "g5.xlarge", "spot", "ended_lease"), strict=True))
    unknown = dict.fromkeys(("lease_id", "attempt_n", "price_per_hour", "launched_at", "deadline_at"))
    store.run(orphans.sight({"account": "main", "region": "r", "tags": "{}", **facts, **unknown}, grace_seconds=0))
    due = orphans.due("main", "r", again_after=30, limit=50, rowless_too=True)
    store_another(store, change)
    assert store.all(due) == []
    store.run(ops.LIFT_HOLD)
    assert [row.instance_id for row in store.all(due)] == ["i-1"]


def test_no_claim_is_freed_on_another_cluster(store: Store, change: str) -> None:
    lease_id = store.lease()
    assert store.first(claims.claim(lease_id, process_locks.claim_id(7), 60)) is not None
    store_another(store, change)
    with store.database.outside_pool() as connection:
        assert free_of_the_dead(connection) == 0
        assert store.row(lease, lease_id).held_until is not None
        store.run(ops.LIFT_HOLD)
        assert free_of_the_dead(connection) == 1


def test_a_loaded_lease_and_a_claimed_job_tell_whether_the_cluster_is_known(store: Store, change: str) -> None:
    lease_id, claim_id = store.lease(), uuid4()
    store.first(claims.claim(lease_id, claim_id, 60))
    store.run(
        jobs.ensure(
            [
                {"name": name, "kind": "watch", "account": "main", "region": name, "interval_seconds": 60}
                for name in "ab"
            ]
        )
    )

    def told() -> list[bool]:
        job = store.first(jobs.claim_due(frozenset({"watch"}), 60))
        found = store.first(claims.load(lease_id, claim_id))
        assert job is not None
        assert found is not None
        return [job.cluster_is_known, found.cluster_is_known]

    assert told() == [True, True]
    store_another(store, change)
    assert told() == [False, False]


def test_the_first_cluster_is_remembered_once(store: Store) -> None:
    store_another(store, "system_identifier = NULL, timeline = NULL")
    assert is_known(store)
    store.run(cluster.remember())
    stored = store.first(text("SELECT system_identifier, timeline FROM installation"))
    assert stored == store.first(text("SELECT system_identifier::text, 1 FROM pg_control_system()"))
    store_another(store, "timeline = 5")
    store.run(cluster.remember())
    assert not is_known(store), "only an operator replaces a stored cluster"


def test_a_held_claim_runs_out_on_any_cluster(store: Store, change: str) -> None:
    lease_id = store.lease()
    store.claimed(lease_id, 60)
    store.write(lease, lease_id, held_until=ago("1 second"))
    store_another(store, change)
    assert store.first(claims.claim(lease_id, uuid4(), timedelta(minutes=1).total_seconds())) is not None
