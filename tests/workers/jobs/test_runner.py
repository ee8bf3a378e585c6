"""Pauses between the runs of periodic jobs."""

import time
from collections.abc import Callable
from typing import Any

from app.db.schema.tables import periodic_job
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.observation.watch import watch
from workers.runtime import Runtime

WORK = 0.1


def run_once(fleet: Fleet, *, found: int = 1, **pauses: Any) -> float:
    """Runs a job that works for `WORK` seconds; answers the seconds from its start to its next one."""

    def work(_runtime: Runtime, _account: str, _region: str) -> int:
        until = time.monotonic() + WORK
        while time.monotonic() < until:
            pass
        return found

    interval = pauses.pop("interval")
    kind = JobSpec(name="test", run=work, interval=lambda _: interval, **pauses)
    ensure_jobs(fleet.runtime, {"test": kind})
    assert PeriodicRunner(fleet.runtime, {"test": kind}).run_one()
    job: Any = next(
        row
        for row in fleet.runtime.database.all(periodic_job.select())
        if (row.kind, row.account, row.region) == ("test", ACCOUNT, REGION)
    )
    return float((job.next_due - job.last_started_at).total_seconds())


def test_a_job_rests_so_many_times_as_long_as_it_worked(fleet: Fleet) -> None:
    assert run_once(fleet, interval=0.01, rest=20.0) >= 21 * WORK


def test_a_job_that_works_little_keeps_to_its_interval(fleet: Fleet) -> None:
    assert run_once(fleet, interval=30.0, rest=20.0) == 30.0


def test_a_job_that_found_nothing_to_do_idles(fleet: Fleet) -> None:
    assert run_once(fleet, interval=5.0, idle=50.0, found=0) == 50.0


def test_a_job_that_found_something_does_not_idle(fleet: Fleet) -> None:
    assert run_once(fleet, interval=5.0, idle=50.0) == 5.0


def test_a_launch_and_a_release_end_the_watchs_idling(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(watch_interval=0.1)
    watching = JobSpec(name="watch", run=watch, interval=lambda _: 0.0, idle=3600.0)
    ensure_jobs(fleet.runtime, {"watch": watching})
    runner = PeriodicRunner(fleet.runtime, {"watch": watching})

    def rest() -> None:
        fleet.drive(lambda: not runner.run_one())

    rest()
    lease_id = fleet.create()
    fleet.drive(lambda: fleet.step() == 0 and bool(fleet.vms()))
    fleet.drive(runner.run_one)
    fleet.drive_to(lease_id, "active")
    rest()
    fleet.end(lease_id)
    fleet.drive(lambda: fleet.attempts(lease_id)[0].terminate_sent_at is not None)
    fleet.drive(runner.run_one)
