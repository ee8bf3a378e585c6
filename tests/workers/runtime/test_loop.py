"""A thread of a worker outlives whatever happens in one of its rounds; so a pool without a free connection stops nobody."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from sqlalchemy.exc import TimeoutError as PoolExhausted

from app.local.waiting import wait_until
from app.settings import load_settings
from workers.jobs.runner import JobSpec, PeriodicRunner
from workers.lifecycle.reconciler import Reconciler
from workers.lifecycle.sweeper import Sweeper
from workers.process import processes
from workers.runtime import claim_renewer, loop, process_locks
from workers.runtime.claim_renewer import ClaimRenewer
from workers.runtime.database import WorkerDatabase
from workers.runtime.process_locks import ProcessLiveness
from workers.runtime.runtime import Runtime
from workers.runtime.unreleased_claims import UnreleasedClaims


class NoConnectionFree:
    """A database that cannot be asked; `asked` counts who tried."""

    def __init__(self) -> None:
        self.asked = 0

    def run(self, statement: Any = None, parameters: Any = None) -> Any:
        self.asked += 1
        raise PoolExhausted

    first = all = outside_pool = run


class WithoutConnections:
    """What the loops use of a process."""

    def __init__(self) -> None:
        self.database = NoConnectionFree()
        self.settings = load_settings(sweep_interval=0.01, sequencer_interval=0.01)
        self.stopping = self.drained = threading.Event()
        self.nudge = threading.Event()
        self.unreleased = UnreleasedClaims()
        self.liveness = ProcessLiveness(cast(WorkerDatabase, self.database))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> WithoutConnections:
    monkeypatch.setattr(loop, "_FAILED_PAUSE", 0.01)
    monkeypatch.setattr(processes, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(claim_renewer, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(process_locks, "_EVERY_SECONDS", 0.01)
    return WithoutConnections()


def sweeping(runtime: Runtime) -> None:
    Sweeper(runtime, Reconciler(runtime)).loop().run()


def running_jobs(runtime: Runtime) -> None:
    kind = JobSpec(name="any", run=lambda *_: 0, interval=lambda _: 0.01)
    PeriodicRunner(runtime, {"any": kind}).loop("any").run()


def renewing(runtime: Runtime) -> None:
    kept = ClaimRenewer(runtime.database)
    with kept.renewing(lambda: cast(Any, None)):
        kept.loop(runtime.stopping).run()


def showing(runtime: Runtime) -> None:
    runtime.liveness.loop(runtime.stopping, runtime.nudge).run()


def beating(runtime: Runtime) -> None:
    processes.Heartbeat(runtime, "worker").loop().run()


def numbering(runtime: Runtime) -> None:
    processes.sequencer(runtime).run()


@pytest.mark.parametrize("run", [sweeping, running_jobs, renewing, showing, beating, numbering])
def test_a_round_that_fails_in_an_unforeseen_way_is_followed_by_another(
    process: WithoutConnections, run: Callable[[Runtime], None]
) -> None:
    thread = threading.Thread(target=run, args=[cast(Runtime, process)], daemon=True)
    thread.start()
    assert wait_until(lambda: process.database.asked > 2 or not thread.is_alive(), timeout=30, poll=0.01)
    assert thread.is_alive()
    process.stopping.set()
    process.nudge.set()
    thread.join(10)
    assert not thread.is_alive()
