"""Periodic jobs: each run by one process at a time, however many there are."""

from typing import Any

from sqlalchemy import select, update

from app.db.fleet import jobs
from app.db.operations.summary import LOST_HOSTS
from app.db.schema.tables import periodic_job, worker_heartbeat
from tests.db.store import Store, ago, ahead, together


def ensure(store: Store, *names: str, kind: str = "watch") -> None:
    store.run(
        jobs.ensure(
            [{"name": name, "kind": kind, "account": "main", "region": name, "interval_seconds": 60} for name in names]
        )
    )


def claim(store: Store, hold: float = 60, kind: str = "watch") -> Any:
    row = look(store, hold, kind)
    return None if row.name is None else row


def look(store: Store, hold: float = 60, kind: str = "watch", **where: Any) -> Any:
    (row,) = store.all(jobs.claim_due(frozenset({kind}), hold, **where))
    return row


def job(store: Store, name: str) -> Any:
    return store.first(select(periodic_job).where(periodic_job.c.name == name))


def test_of_many_who_look_each_job_goes_to_one(store: Store) -> None:
    ensure(store, *"abcde")
    claimed = [row.name for row in together(16, lambda _: claim(store)) if row is not None]
    assert len(claimed) == len(set(claimed))
    while (row := claim(store)) is not None:
        claimed.append(row.name)
    assert sorted(claimed) == list("abcde")


def test_the_longest_due_of_the_asked_kinds_goes_first(store: Store) -> None:
    ensure(store, "new", "old")
    ensure(store, "oldest", kind="other")
    store.run(update(periodic_job).where(periodic_job.c.name == "old").values(next_due=ago("1 hour")))
    store.run(update(periodic_job).where(periodic_job.c.name == "oldest").values(next_due=ago("2 hours")))
    assert [claim(store).name, claim(store).name, claim(store)] == ["old", "new", None]


def test_who_finds_no_job_due_learns_when_the_first_one_will_be(store: Store) -> None:
    assert look(store).soonest is None
    ensure(store, *"abc")
    ensure(store, "d", kind="other")
    for name, due in (("a", "1 hour"), ("b", "1 minute"), ("c", "1 second"), ("d", "1 second")):
        store.run(update(periodic_job).where(periodic_job.c.name == name).values(next_due=ahead(due)))
    store.run(update(periodic_job).where(periodic_job.c.name == "c").values(held_until=ahead("1 minute")))
    store.run(update(periodic_job).where(periodic_job.c.name == "b").values(account="busy"))
    assert 50 < look(store).soonest <= 60
    assert 3500 < look(store, not_at=frozenset({"busy"})).soonest <= 3600


def test_making_a_job_again_changes_nothing(store: Store) -> None:
    ensure(store, "a")
    assert claim(store).runs == 1
    ensure(store, "a")
    assert job(store, "a").runs == 1


def test_a_job_whose_process_died_is_taken_over_and_its_late_end_does_not_count(store: Store) -> None:
    ensure(store, "a")
    lost, won = claim(store, hold=-1).claim_id, claim(store).claim_id
    assert lost != won
    assert store.first(jobs.extend("a", lost, 60)) is None
    assert store.changed(jobs.done("a", lost, again_in=0, error=None)) == 0
    assert store.first(jobs.extend("a", won, 60)) is not None


def test_the_period_counts_from_the_start(store: Store) -> None:
    ensure(store, "a")
    claim_id = claim(store).claim_id
    store.run(update(periodic_job).values(last_started_at=ago("20 seconds"), next_due=ago("21 seconds")))
    store.run(jobs.done("a", claim_id, again_in=60, error=None))
    row = job(store, "a")
    assert (row.next_due - row.last_started_at).total_seconds() == 60
    assert row.last_ok_at is not None


def test_a_job_hurried_while_it_ran_is_due_again_at_once(store: Store) -> None:
    ensure(store, "a")
    claim_id = claim(store).claim_id
    store.run(jobs.hurry("watch", [("main", "a")]))
    store.run(jobs.done("a", claim_id, again_in=60, error=None))
    assert claim(store) is not None


def test_a_run_longer_than_its_period_is_due_again_at_once(store: Store) -> None:
    ensure(store, "a")
    claim_id = claim(store).claim_id
    store.run(update(periodic_job).values(last_started_at=ago("2 minutes")))
    store.run(jobs.done("a", claim_id, again_in=60, error="it took too long"))
    row = claim(store)
    assert row.runs == 2
    assert (job(store, "a").last_error, job(store, "a").last_ok_at) == ("it took too long", None)


def test_a_job_that_succeeds_tells_its_interval_and_one_that_fails_keeps_it(store: Store) -> None:
    ensure(store, "a")
    assert job(store, "a").interval_seconds == 60
    store.run(jobs.done("a", claim(store).claim_id, again_in=300, error=None))
    store.run(update(periodic_job).values(next_due=ago("1 second")))
    store.run(jobs.done("a", claim(store).claim_id, again_in=5, error="no"))
    ensure(store, "a")
    assert job(store, "a").interval_seconds == 300


def test_a_job_can_be_hurried(store: Store) -> None:
    ensure(store, "a", "b")
    store.run(update(periodic_job).values(next_due=ahead("1 hour")))
    store.run(jobs.hurry("watch", [("main", "b"), ("main", "nowhere")]))
    assert [claim(store).name, claim(store)] == ["b", None]


def test_a_job_of_all_regions_is_hurried_for_any_of_them(store: Store) -> None:
    about = {"kind": "inventory", "region": None, "interval_seconds": 60}
    whole = [{"name": name, "account": name, **about} for name in ("main", "other")]
    store.run(jobs.ensure(whole))
    store.run(update(periodic_job).values(next_due=ahead("1 hour")))
    store.run(jobs.hurry("inventory", [("main", "a"), ("main", "b")]))
    assert [claim(store, kind="inventory").name, claim(store, kind="inventory")] == ["main", None]


def test_a_job_that_waits_for_its_turn_is_not_written_again_by_whoever_hurries_it(store: Store) -> None:
    ensure(store, "a")
    store.run(update(periodic_job).values(next_due=ahead("1 hour")))
    hurried = [store.run(jobs.hurry("watch", [("main", "a")])) for _ in range(3)]
    assert hurried == [1, 0, 0]


def test_a_job_hurried_to_run_within_some_time_keeps_its_pace(store: Store) -> None:
    ensure(store, "a")
    store.run(update(periodic_job).values(next_due=ahead("1 second"), last_started_at=ago("1 second")))
    assert store.run(jobs.hurry("watch", [("main", "a")], within=5)) == 0
    store.run(update(periodic_job).values(next_due=ahead("1 hour")))
    assert store.run(jobs.hurry("watch", [("main", "a")], within=5)) == 1
    assert claim(store) is None
    store.run(update(periodic_job).values(next_due=ago("1 second")))
    claim_id = claim(store).claim_id
    assert [store.run(jobs.hurry("watch", [("main", "a")], within=5)) for _ in range(2)] == [1, 0]
    store.run(jobs.done("a", claim_id, again_in=60, error=None))
    row = job(store, "a")
    assert 4 < (row.next_due - row.last_started_at).total_seconds() < 6


def test_jobs_that_nobody_needs_are_forgotten_within_their_kinds(store: Store) -> None:
    ensure(store, "a", "b")
    ensure(store, "c", kind="other")
    store.run(jobs.keep_only(["watch"], ["a"]))
    assert sorted(row.name for row in store.rows(periodic_job)) == ["a", "c"]


def test_a_heartbeat_is_renewed_and_forgotten_after_a_day(store: Store) -> None:
    for name in ("alive", "dead", "alive"):
        store.run(jobs.beat_at("host", name, "worker"))
    dead = update(worker_heartbeat).where(worker_heartbeat.c.name == "dead")
    for age, left in (("23 hours", ["alive", "dead"]), ("25 hours", ["alive"])):
        store.run(dead.values(seen_at=ago(age)))
        store.run(jobs.forget_dead_workers())
        assert sorted(row.name for row in store.rows(worker_heartbeat)) == left


def test_a_host_is_lost_when_none_of_its_processes_of_a_kind_reports_and_none_has_stopped(store: Store) -> None:
    def lost() -> list[tuple[str, str]]:
        return [(row.host, row.kind) for row in store.all(LOST_HOSTS)]

    for host, name, kind in (("a", "1", "worker"), ("a", "2", "inventory"), ("b", "3", "worker"), ("b", "4", "worker")):
        store.run(jobs.beat_at(host, name, kind))
    store.run(jobs.beat(jobs.DEADMAN, jobs.DEADMAN))
    store.run(update(worker_heartbeat).values(seen_at=ago("59 seconds")))
    assert lost() == []
    store.run(update(worker_heartbeat).values(seen_at=ago("61 seconds")))
    assert lost() == [("a", "inventory"), ("a", "worker"), ("b", "worker")]
    store.run(jobs.beat_at("b", "4", "worker"))
    store.run(jobs.beat_at("a", "5", "worker"))
    assert lost() == [("a", "inventory")], "another process of the host reports"
    store.run(jobs.forget_heartbeat("2"))
    assert lost() == [], "it stopped"


def test_since_when_the_dead_man_switch_is_silent_is_never_forgotten(store: Store) -> None:
    store.run(jobs.beat(jobs.DEADMAN, jobs.DEADMAN))
    store.run(update(worker_heartbeat).values(seen_at=ago("1 day")))
    store.run(jobs.forget_dead_workers())
    assert [row.name for row in store.rows(worker_heartbeat)] == ["deadman"]
