"""Pauses between the runs of periodic jobs."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.db.schema.tables import periodic_job
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.observation.watch import watch
from workers.runtime.runtime import Runtime

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


class Idle:
    """What a runner uses of a process when no job is due: how long it waits then, once."""

    def __init__(self, soonest: float | None) -> None:
        self.database = self.stopping = self.liveness = self
        self.number = 1
        self.waited: list[float] = []
        self._soonest = soonest

    def all(self, _asked: Any) -> list[Any]:
        return [SimpleNamespace(name=None, soonest=self._soonest)]

    def is_set(self) -> bool:
        return bool(self.waited)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.mark.parametrize(
    ("soonest", "interval", "waits"),
    [(0.3, 15.0, 0.3), (7.0, 15.0, 1.0), (None, 15.0, 1.0), (7.0, 0.5, 0.5), (-3.0, 15.0, 0.05)],
)
def test_without_work_a_runner_waits_for_the_next_job(soonest: float | None, interval: float, waits: float) -> None:
    """At most for its shortest interval, or a second: others make jobs due sooner."""
    idle = Idle(soonest)
    kind = JobSpec(name="test", run=lambda *_: 0, interval=lambda _: interval)
    PeriodicRunner(cast(Runtime, idle), {"test": kind}).loop("test").run()
    assert idle.waited == [waits]


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
