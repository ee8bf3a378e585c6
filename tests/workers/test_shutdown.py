"""A worker that is told to stop takes nothing more, finishes the call under way, and leaves no claim behind."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import func, select

from app.db.schema.tables import lease
from app.domain.ids import LeaseId
from app.hints import celery_sender
from app.local.ports import free_port
from app.local.waiting import wait_until
from tests.harness.forks import ForkServer
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import RealTime, VirtualTime
from tests.workers.worker_process import PATIENCE, Claims, WorkerProcess, running, wait_until_server_is_old

LEASES = 20
SECONDS_TO_MOVE_ON = 2.0


@pytest.fixture
def virtual_time() -> VirtualTime:
    """Other processes run meanwhile."""
    return RealTime()


@pytest.fixture
def workers(fleet: Fleet, tmp_path: Path, forks: ForkServer) -> Iterator[list[WorkerProcess]]:
    """Three workers with four threads each. A call that launches or terminates takes 0.3 s."""
    with ExitStack() as stack:
        started = [stack.enter_context(running(fleet, tmp_path, forks=forks)) for _ in range(3)]
        for operation in ("RunInstances", "TerminateInstances"):
            fleet.sim.fault(operation, "delay", times=None, delay_seconds=0.3)
        yield started


def create_with_hints(fleet: Fleet) -> list[LeaseId]:
    """More leases than the workers have threads; every second one comes to the workers by a hint as well."""
    send = celery_sender(fleet.runtime.settings.broker_url)
    lease_ids = [fleet.create(wait_seconds=600) for _ in range(LEASES)]
    for lease_id in lease_ids[::2]:
        send(lease_id)
    return lease_ids


def count(fleet: Fleet, *states: str) -> int:
    found = fleet.runtime.database.all(select(func.count()).where(lease.c.state.in_(states)))
    return int(found[0][0])


def wait_for(fleet: Fleet, number: int, *states: str) -> None:
    assert wait_until(lambda: count(fleet, *states) >= number, timeout=PATIENCE, poll=0.02), fleet.states()


def watch_claims(fleet: Fleet, state: str) -> float:
    """The longest time for which a lease was claimed by no living process, until all leases are in this state."""
    claims = Claims(fleet)

    def done() -> bool:
        claims.look()
        return count(fleet, state) == LEASES or claims.longest > 2 * SECONDS_TO_MOVE_ON

    assert wait_until(done, timeout=PATIENCE, poll=0.05), fleet.states()
    return claims.longest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_launches_and_releases_move_on_within_two_seconds_when_a_worker_ends(
    fleet: Fleet, workers: list[WorkerProcess], number: signal.Signals
) -> None:
    wait_until_server_is_old(fleet)
    lease_ids = create_with_hints(fleet)
    wait_for(fleet, LEASES // 4, "active", "booting")
    workers[0].stop(number)
    assert watch_claims(fleet, "active") < SECONDS_TO_MOVE_ON
    for lease_id in lease_ids:
        fleet.end(lease_id)
    wait_for(fleet, LEASES // 4, "releasing", "released")
    workers[1].stop(number)
    assert watch_claims(fleet, "released") < SECONDS_TO_MOVE_ON
    assert {len(fleet.attempts(lease_id)) for lease_id in lease_ids} == {1}
    assert fleet.vms() == []
    if number is signal.SIGTERM:
        for process in workers[:2]:
            assert process.child.returncode == 0
            assert process.events("worker stopped")
            assert process.events("claim lost") == []


@pytest.mark.parametrize("kind", ["worker", "inventory"])
def test_every_line_of_output_is_json_also_while_redis_is_away(fleet: Fleet, tmp_path: Path, kind: str) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    with running(fleet, tmp_path, kind, GPULEASE_BROKER_URL=away, PYTHONWARNINGS="always") as process:
        if kind == "worker":
            assert wait_until(lambda: any("Redis is away" in line for line in process.lines()), timeout=PATIENCE)
        assert process.stop() < PATIENCE / 2
    entries = [json.loads(line) for line in process.lines()]
    assert all(entry["level"] and entry["timestamp"] and entry["event"] for entry in entries)
    assert [entry["event"] for entry in entries][-1] == f"{kind} stopped"
    assert bool(process.events("running as root")) == (os.geteuid() == 0)
    assert not any("superuser" in line or "SecurityWarning" in line for line in process.lines())
