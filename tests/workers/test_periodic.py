"""Pauses between the runs of periodic jobs."""

import time
from typing import Any

from app.db.tables import periodic_job
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.periodic import Kind, PeriodicRunner, ensure_jobs
from workers.runtime import Runtime

WORK = 0.1


def run_once(fleet: Fleet, *, interval: float, rest: float) -> float:
    """Runs a job that works for `WORK` seconds; answers the seconds from its start to its next one."""

    def work(_runtime: Runtime, _account: str, _region: str) -> None:
        until = time.monotonic() + WORK
        while time.monotonic() < until:
            pass

    kind = Kind(name="test", run=work, interval=lambda _: interval, rest=rest)
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
