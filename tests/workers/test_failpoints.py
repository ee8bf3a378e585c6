"""Failpoints have names for every step of the protocol, act once, and cannot be switched on beside a real cloud."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import pytest
import structlog
from sqlalchemy import select, update

from app.db.schema.tables import lease, periodic_job
from app.domain import lifecycle
from app.local.waiting import wait_until
from tests.failpoints.actions import HIT, RESUMED, TRACE, Action, Arms, FailpointError, arm, resumed
from tests.failpoints.points import AFTER, BEFORE, OF_VMS, names, read_sites
from tests.workers.conftest import QUICK
from tests.workers.fleet import Fleet
from workers.jobs.runner import PeriodicRunner
from workers.jobs.schedule import job_specs
from workers.lifecycle.step_table import STEPS, StepSpec

LAUNCHED = "send.send:launch:after"
MODULE_OF: dict[type[Any], str] = {
    step: (spec.act if isinstance(spec, StepSpec) else next(iter(spec.by_state.values()))).__module__.rpartition(".")[2]
    for step, spec in STEPS.items()
}


@pytest.mark.parametrize("step", MODULE_OF, ids=[step.__name__ for step in MODULE_OF])
def test_every_step_has_a_point_before_and_after_each_of_its_effects(step: type[lifecycle.Step]) -> None:
    module = "plan" if MODULE_OF[step] == "place" else MODULE_OF[step]
    mine = [name for name in names() if name.startswith(f"{module}.")]
    assert mine
    assert {name.rpartition(":")[2] for name in mine} == {BEFORE, AFTER}


def test_every_step_that_is_decided_is_known_here() -> None:
    assert set(MODULE_OF) == {step for step in get_args(lifecycle.Step) if step is not lifecycle.Rest}


def test_every_call_to_a_provider_by_which_vms_live_has_a_point() -> None:
    assert {name.split(":")[1] for name in names()} >= OF_VMS


def test_mere_reads_have_none() -> None:
    assert not [name for name in names() if name.split(":")[1] in ("load", "tried_since", "WATCHED", "region_rows")]


def test_a_commit_or_call_that_the_reading_missed_is_refused() -> None:
    site = next(iter(read_sites()))
    with pytest.raises(LookupError, match="no failpoint knows"):
        read_sites()._at(site.file, 1)


def test_they_are_refused_where_a_real_cloud_could_be_met(make_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    config = tmp_path / "accounts.toml"
    config.write_text('[[accounts]]\nname = "main"\nprovider = "aws"\nregions = ["us-east-1"]\n')
    with pytest.raises(AssertionError, match="'main' is at None"):
        make_fleet(observe=False, failpoints=tmp_path, config=config)


def test_a_point_acts_once_for_its_lease_alone_and_leaves_a_sign(tmp_path: Path) -> None:
    arms = Arms(tmp_path, "postgresql://nowhere")
    hit = arm(tmp_path, LAUNCHED, Action.EXCEPTION, key="lease_1")
    (tmp_path / TRACE).touch()
    with structlog.contextvars.bound_contextvars(lease_id="lease_2"):
        assert arms.reach(LAUNCHED) is None
    with structlog.contextvars.bound_contextvars(lease_id="lease_1"):
        with pytest.raises(FailpointError, match=LAUNCHED):
            arms.reach(LAUNCHED)
        assert arms.reach(LAUNCHED) is None
    assert hit.name == f"{LAUNCHED}@lease_1{HIT}"
    assert json.loads(hit.read_text())["action"] == "exception"
    assert (tmp_path / TRACE).read_text().split() == [LAUNCHED, "lease_2", LAUNCHED, "lease_1", LAUNCHED, "lease_1"]


def test_a_hang_ends_by_itself_and_the_point_is_passed(tmp_path: Path) -> None:
    arm(tmp_path, LAUNCHED, Action.HANG, key="sim", seconds=0.01)
    with structlog.contextvars.bound_contextvars(job="watch/sim/us-east-1"):
        assert Arms(tmp_path, "postgresql://nowhere").reach(LAUNCHED) is Action.HANG


@pytest.mark.parametrize(
    ("point", "over"),
    [
        ("send._check:send:after", False),
        ("send.send:launch:before", True),
        ("send.send:launch:after", False),
        ("send.record:commit:before", False),
    ],
)
def test_a_late_point_waits_until_another_worker_has_finished_and_goes_on(
    make_fleet: Callable[..., Fleet], tmp_path: Path, point: str, *, over: bool
) -> None:
    folder = tmp_path / "failpoints"
    folder.mkdir()
    quick = {"claim_seconds": 2.0, "call_timeout": 0.7, "connect_timeout": 0.3}
    late, other = make_fleet(failpoints=folder, **quick), make_fleet(**quick)
    lease_id = late.create()
    hit = arm(folder, point, Action.LATE, key=lease_id, seconds=30, over=over)
    continued = resumed(hit)
    with ThreadPoolExecutor(1) as threads:
        step = threads.submit(late.step)
        assert wait_until(hit.exists, timeout=60)
        assert other.drive_to(lease_id, "active", "failed").state == "active"
        if over:
            assert not continued.exists()
        else:
            assert wait_until(continued.exists, timeout=60)
        other.end(lease_id)
        other.drive_to(lease_id, "released")
        step.result(timeout=30)
    assert json.loads(continued.read_text()) == {"late": True}
    assert len(late.sim.instances()) == 1
    assert late.vms() == []
    assert late.used() == {}


def test_at_a_point_of_a_hostile_tenant_the_thread_waits_for_the_end_of_its_reports(tmp_path: Path) -> None:
    hit = arm(tmp_path, LAUNCHED, Action.HOSTILE, key="lease_1", seconds=60)

    def reach() -> Action | None:
        with structlog.contextvars.bound_contextvars(lease_id="lease_1"):
            return Arms(tmp_path, "postgresql://nowhere").reach(LAUNCHED)

    with ThreadPoolExecutor(1) as threads:
        reached = threads.submit(reach)
        assert wait_until(hit.exists, timeout=60)
        assert not reached.done()
        resumed(hit).touch()
        assert reached.result(timeout=60) is Action.HOSTILE


def test_a_late_point_that_nobody_overtakes_goes_on_in_the_end(fleet: Fleet, tmp_path: Path) -> None:
    lease_id = fleet.create()
    claims = update(lease).where(lease.c.id == lease_id).values(claim_id=uuid4())
    fleet.runtime.database.run(claims)
    hit = arm(tmp_path, LAUNCHED, Action.LATE, key=lease_id, seconds=0.1)
    with structlog.contextvars.bound_contextvars(lease_id=lease_id):
        Arms(tmp_path, fleet.runtime.settings.database_url).stall(LAUNCHED)
    assert json.loads(resumed(hit).read_text()) == {"late": False}


def test_a_job_that_is_late_loses_its_claim_and_waits_for_whoever_does_it_instead(fleet: Fleet, tmp_path: Path) -> None:
    arm(tmp_path, LAUNCHED, Action.LATE, key="sim", seconds=30)
    hit = tmp_path / f"{LAUNCHED}@sim.late{RESUMED}"
    runner = PeriodicRunner(fleet.runtime, job_specs(fleet.runtime.settings).watch)
    [job] = [row for row in fleet.runtime.database.all(select(periodic_job)) if row.kind == "watch"]

    def stall() -> None:
        with structlog.contextvars.bound_contextvars(job=job.name):
            Arms(tmp_path, fleet.runtime.settings.database_url).stall(LAUNCHED)

    with ThreadPoolExecutor(1) as threads:
        stalled = threads.submit(stall)
        fleet.wait_for(lambda: hit.exists() or (runner.run_one() and hit.exists()))
        stalled.result(timeout=30)
    assert json.loads(hit.read_text()) == {"late": True}


def test_a_lease_lives_through_a_bug_and_a_lost_commit_around_its_launch(
    make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    folder = tmp_path / "failpoints"
    folder.mkdir()
    fleet = make_fleet(failpoints=folder, **QUICK)
    fleet.may_break_off = True
    lease_id = fleet.create()
    hits = [
        arm(folder, "send._check:send:after", Action.POSTGRES_GONE, key=lease_id),
        arm(folder, "send.record:commit:before", Action.POSTGRES_GONE, key=lease_id),
        arm(folder, "enter.enter_active:commit:after", Action.POSTGRES_GONE, key=lease_id),
    ]
    fleet.drive_to(lease_id, "active")
    assert all(hit.exists() for hit in hits)
    assert len(fleet.vms()) == 1
