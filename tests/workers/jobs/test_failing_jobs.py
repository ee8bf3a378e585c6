"""A job that fails is counted, named in the log and tried again, whatever failed: its statement, the database or the program."""

from collections.abc import Callable
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import func, text
from sqlalchemy.exc import DBAPIError

from app.db.schema.tables import periodic_job
from tests.harness.lines import written_by
from tests.workers.fleet import REGION, Fleet
from tests.workers.runtime.test_metrics import told
from workers.jobs import runner
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.providers.errors import Unreachable
from workers.runtime import brakes, loop
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

FAULTY = "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{}'; END $$"


def run_failing(fleet: Fleet, kind: str, fail: Callable[[Runtime], object]) -> list[dict[str, Any]]:
    """Runs the job of this kind once, with `fail` as its work. Returns the log lines."""

    def work(runtime: Runtime, _account: str, _region: str) -> None:
        fail(runtime)

    spec = JobSpec(name=kind, run=work, interval=lambda _: 60.0, per_region=False)
    ensure_jobs(fleet.runtime, {kind: spec})
    with written_by(log=runner) as lines:
        assert PeriodicRunner(fleet.runtime, {kind: spec}).run_one()
        return lines.new()


def failures(fleet: Fleet, kind: str) -> list[float]:
    return told(fleet.runtime.metrics, "job_failures_total", f'kind="{kind}"')


@pytest.mark.parametrize("state", ["P0001", "42501", "42P01", "23505", "22012", "55P03"])
def test_a_statement_that_fails_is_no_outage(fleet: Fleet, state: str) -> None:
    lines = run_failing(fleet, "recount", lambda runtime: runtime.database.run(text(FAULTY.format(state))))
    assert [(line["event"], line["job"], line["level"]) for line in lines] == [("statement failed", "recount", "error")]
    assert failures(fleet, "recount") == [1.0]
    (job,) = [row for row in fleet.runtime.database.all(periodic_job.select()) if row.name == "recount"]
    assert (job.claim_id, job.last_ok_at, job.last_error) == (None, None, "statement failed, see the log")


@pytest.mark.parametrize("state", ["57P01", "53300", "53100", "25006", "58030"])
def test_a_database_that_is_away_is_called_so_with_the_job_s_name(fleet: Fleet, state: str) -> None:
    lines = run_failing(fleet, "recount", lambda runtime: runtime.database.run(text(FAULTY.format(state))))
    assert [(line["event"], line["job"]) for line in lines] == [("database away", "recount")]
    assert failures(fleet, "recount") == [1.0]


def test_a_silence_is_logged_once_when_it_becomes_a_brake(fleet: Fleet) -> None:
    def fail(_runtime: Runtime, _account: str, _region: str) -> None:
        raise Unreachable("no route", code="Timeout")

    spec = JobSpec(name="inventory", run=fail, interval=lambda _: 60.0)
    ensure_jobs(fleet.runtime, {"inventory": spec})
    running, brakes_set = PeriodicRunner(fleet.runtime, {"inventory": spec}), []
    older = text("""UPDATE account_region SET last_error =
        last_error || jsonb_build_object('since', to_jsonb(now() - make_interval(secs => :seconds)))""")
    with written_by(log=brakes) as lines:
        for seconds in (0, 25, 31, 31):
            fleet.runtime.database.run(older.bindparams(seconds=seconds))
            fleet.runtime.database.run(periodic_job.update().values(next_due=func.now()))
            assert running.run_one()
            found = [line for line in lines.new() if line["event"] == "brake set"]
            brakes_set.append([(line["brake"], line["region"], line["level"]) for line in found])
    first, young, *silent = brakes_set
    assert (first, young) == ([], [])
    assert silent[0] == [("silence", REGION, "error")]


def test_a_loop_asks_what_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for error in (
        psycopg.errors.RaiseException("no"),
        psycopg.errors.AdminShutdown("it stops"),
        psycopg.OperationalError("no route"),
        psycopg.DataError("NUL in a text"),
    ):

        class Once:
            stopped = False

            def is_set(self) -> bool:
                return self.stopped

            def wait(self, _seconds: float) -> None:
                self.stopped = True

        def fail(error: Exception = error) -> None:
            raise DBAPIError("SELECT 1", None, error)

        with written_by(log=loop) as lines:
            Loop("test", fail, stopping=cast(Any, Once())).run()
            said += [line["event"] for line in lines.new()]
    assert said == ["statement failed", "database away", "database away", "statement failed"]
