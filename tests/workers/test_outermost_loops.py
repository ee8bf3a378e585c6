"""A thread of a worker outlives whatever happens in one of its rounds; so a pool without a free connection stops nobody."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from sqlalchemy.exc import TimeoutError as PoolExhausted

from app.local.waiting import wait_until
from app.settings import load_settings
from workers import presence, processes, renewals
from workers.database import Database
from workers.periodic import Kind, PeriodicRunner
from workers.presence import Presence
from workers.reconciler import Reconciler
from workers.renewals import Renewals
from workers.runtime import Runtime
from workers.sweeper import Sweeper


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
        self.stopping = threading.Event()
        self.nudge = threading.Event()
        self.presence = Presence(cast(Database, self.database))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> WithoutConnections:
    monkeypatch.setattr(processes, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(renewals, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(presence, "_EVERY_SECONDS", 0.01)
    return WithoutConnections()


def sweeping(runtime: Runtime) -> None:
    Sweeper(runtime, Reconciler(runtime)).loop()


def running_jobs(runtime: Runtime) -> None:
    kind = Kind(name="any", run=lambda *_: 0, interval=lambda _: 0.01)
    PeriodicRunner(runtime, {"any": kind}).loop()


def renewing(runtime: Runtime) -> None:
    kept = Renewals(runtime.database)
    with kept.renewing(lambda: cast(Any, None)):
        kept.loop(runtime.stopping)


def showing(runtime: Runtime) -> None:
    runtime.presence.loop(runtime.stopping, runtime.nudge)


def beating(runtime: Runtime) -> None:
    processes.beat(runtime, "worker")


def numbering(runtime: Runtime) -> None:
    processes._sequence(runtime)


@pytest.mark.parametrize("loop", [sweeping, running_jobs, renewing, showing, beating, numbering])
def test_a_round_that_fails_in_an_unforeseen_way_is_followed_by_another(
    process: WithoutConnections, loop: Callable[[Runtime], None]
) -> None:
    thread = threading.Thread(target=loop, args=[cast(Runtime, process)], daemon=True)
    thread.start()
    assert wait_until(lambda: process.database.asked > 2 or not thread.is_alive(), timeout=30, poll=0.01)
    assert thread.is_alive()
    process.stopping.set()
    process.nudge.set()
    thread.join(10)
    assert not thread.is_alive()
