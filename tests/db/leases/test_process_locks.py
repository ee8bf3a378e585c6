"""Claims of a process that is gone are free at once; those of one that lives, and of nobody in particular, are not."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, func, insert, select, text

from app.db.core.ids import new_id
from app.db.events import webhook_lanes
from app.db.fleet import jobs
from app.db.leases import claims, process_locks
from app.db.schema.tables import webhook
from app.local.waiting import wait_until
from tests.db.store import Store, ago
from tests.harness.databases import ROOT
from workers.runtime.database import WorkerDatabase
from workers.runtime.process_locks import ProcessLiveness, free_of_the_dead


@contextmanager
def process(database: WorkerDatabase, number: int) -> Iterator[Connection]:
    """One that lives for as long as the block runs."""
    with database.outside_pool() as connection:
        assert connection.execute(process_locks.lock(number)).scalar_one()
        yield connection


@pytest.fixture(autouse=True)
def long_running_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' server may have been started a moment ago."""
    now = text(str(process_locks.FREE).replace("- interval '10 seconds'", ""))
    monkeypatch.setattr(process_locks, "FREE", now)


def freed(store: Store) -> int:
    with store.database.outside_pool() as connection:
        return free_of_the_dead(connection)


def by_id(store: Store, number: int | None) -> None:
    assert store.first(claims.claim(store.lease(), process_locks.claim_id(number), 60)) is not None


def by_sweep(store: Store, number: int | None) -> None:
    store.lease()
    assert len(store.all(claims.claim_due(1, 60, number))) == 1


def a_job(store: Store, number: int | None) -> None:
    store.run(jobs.ensure([{"name": "a", "kind": "watch", "account": "main", "region": "a", "interval_seconds": 60}]))
    assert [row.name for row in store.all(jobs.claim_due(frozenset({"watch"}), 60, number))] == ["a"]


def a_lane(store: Store, number: int | None) -> None:
    """As whoever delivers webhooks takes one."""
    values = {"url": "https://example.com", "position": 0, "next_due": ago("1 second")}
    store.run(insert(webhook).values(id=new_id("webhook"), tenant_id=store.tenant_id, **values))
    taken = webhook_lanes.claim(process_locks.claim_id(number), timedelta(minutes=1), slow_too=True, not_of=())
    assert store.first(taken) is not None


CLAIMS: list[Callable[[Store, int | None], None]] = [by_id, by_sweep, a_job, a_lane]


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1])
@pytest.mark.parametrize("take", CLAIMS)
def test_a_claim_lasts_as_long_as_its_process(
    store: Store, take: Callable[[Store, int | None], None], number: int
) -> None:
    with process(store.database, number):
        take(store, number)
        assert freed(store) == 0
    assert wait_until(lambda: freed(store) == 1, timeout=10)
    assert freed(store) == 0


@pytest.mark.parametrize("take", CLAIMS)
def test_a_claim_of_nobody_in_particular_runs_out_by_itself(
    store: Store, take: Callable[[Store, int | None], None]
) -> None:
    take(store, None)
    assert freed(store) == 0


def test_whoever_takes_over_leaves_nothing_to_decide_to_one_that_lives_after_all(store: Store) -> None:
    lease_id = store.lease()
    lost = process_locks.claim_id(7)
    assert store.first(claims.claim(lease_id, lost, 60)) is not None
    assert store.first(claims.claim(lease_id, uuid4(), 60)) is None
    assert freed(store) == 1
    assert store.first(claims.load(lease_id, lost)) is not None
    assert store.first(claims.claim(lease_id, uuid4(), 60)) is not None
    assert store.first(claims.load(lease_id, lost)) is None


def test_only_locks_of_ours_say_that_a_process_lives(store: Store) -> None:
    by_id(store, 7)
    with store.database.outside_pool() as connection:
        connection.execute(select(func.pg_advisory_lock(1, 7)))
        connection.execute(select(func.pg_advisory_lock(7)))
        assert freed(store) == 1


def test_nobody_is_dead_to_a_server_that_has_just_started(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    by_id(store, 7)
    too_early = text(str(process_locks.FREE).replace("< now()", "< now() - interval '1 year'"))
    monkeypatch.setattr(process_locks, "FREE", too_early)
    assert freed(store) == 0


def test_a_number_belongs_to_one_process(store: Store) -> None:
    with process(store.database, 7), store.database.outside_pool() as other:
        assert not other.execute(process_locks.lock(7)).scalar_one()


LIVES = """
import sys, threading
from app.db.leases import process_locks
from workers.runtime.database import WorkerDatabase

with WorkerDatabase(sys.argv[1], pool_size=1).outside_pool() as connection:
    print(connection.execute(process_locks.lock(7)).scalar_one(), flush=True)
    threading.Event().wait()
"""


def test_a_process_that_is_killed_holds_nothing_any_more(store: Store, database_url: str) -> None:
    argv = [sys.executable, "-c", LIVES, database_url]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as lives:
        try:
            assert lives.stdout is not None
            assert lives.stdout.readline() == "True\n"
            by_id(store, 7)
            assert freed(store) == 0
        finally:
            lives.kill()
    assert wait_until(lambda: freed(store) == 1, timeout=10)


def test_a_process_whose_connection_is_cut_comes_back(store: Store, database_url: str) -> None:
    liveness, stopping, nudge = ProcessLiveness(store.database), threading.Event(), threading.Event()
    thread = threading.Thread(target=liveness.loop(stopping, nudge).run)
    thread.start()
    try:
        assert wait_until(lambda: liveness.number is not None, timeout=10)
        first = liveness.number
        with psycopg.connect(database_url) as superuser:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s::bigint"
            assert superuser.execute(cut, [first]).fetchall() == [(True,)]
        assert wait_until(lambda: liveness.number not in {None, first}, timeout=10)
        by_id(store, first)
        assert nudge.wait(10)
    finally:
        stopping.set()
        thread.join()
    assert liveness.number is None
