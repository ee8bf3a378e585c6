"""What a worker still does after it was told to stop: it ends the call under way, and hands its leases over at once."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from app.db.operations.summary import HEARTBEATS
from app.db.schema.tables import worker_heartbeat
from app.domain.ids import LeaseId
from app.domain.placement import Requirements
from app.local.waiting import wait_until
from tests.workers.failing import Failing
from tests.workers.fleet import Fleet
from workers.lifecycle.sweeper import Sweeper
from workers.process.processes import InventoryThreads, WorkerThreads
from workers.providers.errors import InvalidSpec

PATIENCE = 20.0


class Stopping(Failing):
    """An account during one of whose calls the process is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.stop: Callable[[], None] = lambda: None
        self.calls: list[str] = []

    def _checked(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        checked = super()._checked(name, call)

        def stopping(*given: object, **named: object) -> object:
            self.calls.append(name)
            self.stop()
            return checked(*given, **named)

        return stopping


@pytest.fixture
def failing() -> Stopping:
    return Stopping()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Stopping) -> Fleet:
    """A claim lasts long enough for a call that is held up on a busy machine: the send window ends before the claim."""
    return make_fleet(connect_account=failing.connect, claim_seconds=30.0)


def stop_during(fleet: Fleet, failing: Stopping, name: str) -> None:
    """The process is told to stop while the next call of this name is under way."""
    failing.calls.clear()
    failing.stop = lambda: fleet.runtime.stopping.set() if failing.calls[-1] == name else None


def is_free_and_due(fleet: Fleet, lease_id: LeaseId) -> bool:
    row = fleet.lease(lease_id)
    return row.claim_id is None and row.held_until is None and row.next_due is not None and fleet.rests(lease_id) < 0.5


def go_on(fleet: Fleet, failing: Stopping) -> None:
    """As another worker would."""
    failing.stop = lambda: None
    fleet.runtime.stopping.clear()


def test_no_further_step_is_taken_after_the_call_under_way(fleet: Fleet, failing: Stopping) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    stop_during(fleet, failing, "terminate")
    fleet.end(lease_id)
    fleet.step()
    assert failing.calls == ["terminate"]
    assert is_free_and_due(fleet, lease_id)
    go_on(fleet, failing)
    fleet.drive_to(lease_id, "released")


def test_the_answer_of_a_launch_under_way_is_recorded(fleet: Fleet, failing: Stopping) -> None:
    lease_id = fleet.create()
    fleet.runtime.accounts.require_identity("sim")
    fleet.runtime.accounts.image("sim", "us-east-1")
    stop_during(fleet, failing, "launch")
    fleet.step()
    assert failing.calls == ["launch"]
    assert [attempt.state for attempt in fleet.attempts(lease_id)] == ["known"]
    assert is_free_and_due(fleet, lease_id)
    go_on(fleet, failing)
    fleet.drive_to(lease_id, "active")
    assert len(fleet.sim.instances()) == 1


def test_no_further_candidate_is_tried(fleet: Fleet, failing: Stopping) -> None:
    """Of several zones, each of which asks for the image."""
    fleet.runtime.accounts.require_identity("sim")
    failing.errors = {"image": InvalidSpec("no such image", code="Gone")}
    lease_id = fleet.create(wait_seconds=600)
    assert len(fleet.runtime.catalogue.ranking(Requirements(instance_types=("g5.xlarge",)), fleet.now()).candidates) > 1
    stop_during(fleet, failing, "image")
    fleet.step()
    assert failing.calls == ["image"]
    assert is_free_and_due(fleet, lease_id)
    assert fleet.lease(lease_id).reason is None
    failing.errors = {}
    go_on(fleet, failing)
    fleet.drive_to(lease_id, "active")


def test_a_vm_whose_console_is_kept_is_ended_by_the_next_worker(
    make_fleet: Callable[..., Fleet], failing: Stopping
) -> None:
    """Two calls of one step are one call each to a worker that stops."""
    fleet = make_fleet(connect_account=failing.connect, boot_timeout=0.5)
    fleet.sim.fault("boot", "hang", times=None)
    lease_id = fleet.create()
    stop_during(fleet, failing, "console_output")
    fleet.drive(fleet.runtime.stopping.is_set)
    assert failing.calls[-1] == "console_output"
    assert is_free_and_due(fleet, lease_id)
    go_on(fleet, failing)
    fleet.drive_to(lease_id, "failed")
    assert fleet.sim.calls()["GetConsoleOutput"] == 1


def test_a_hint_is_not_followed(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.runtime.stopping.set()
    assert not fleet.reconciler.run_hinted(lease_id)
    assert is_free_and_due(fleet, lease_id)
    assert fleet.attempts(lease_id) == []


def test_a_sweeper_that_waits_for_its_interval_takes_nothing_more(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(sweep_interval=600.0)
    sweeper = Sweeper(fleet.runtime, fleet.reconciler)
    thread = sweeper.start()
    lease_id = fleet.create()
    fleet.runtime.stopping.set()
    fleet.runtime.nudge.set()
    sweeper.drain()
    assert not thread.is_alive()
    assert is_free_and_due(fleet, lease_id)
    assert fleet.attempts(lease_id) == []


@contextmanager
def held_up(failing: Stopping, name: str) -> Iterator[threading.Event]:
    """A call of this name waits within the block until the event is set. The event is set at the end."""
    entered, let_go = threading.Event(), threading.Event()

    def wait() -> None:
        if failing.calls[-1] == name:
            entered.set()
            let_go.wait(PATIENCE)

    failing.stop = wait
    try:
        yield entered
    finally:
        let_go.set()


def test_a_process_is_known_to_live_until_its_last_call_has_ended(fleet: Fleet, failing: Stopping) -> None:
    lease_id = fleet.create()
    threads = WorkerThreads(fleet.runtime)
    with held_up(failing, "launch") as entered:
        threads.start()
        fleet.observe()
        assert entered.wait(PATIENCE)
        number = fleet.runtime.liveness.number
        stopper = threading.Thread(target=threads.stop)
        stopper.start()
        assert fleet.runtime.stopping.wait(PATIENCE)
        stopper.join(2.5)
        assert stopper.is_alive()
        assert number is not None
        assert fleet.runtime.liveness.number == number
        assert fleet.lease(lease_id).claim_id is not None
    stopper.join(PATIENCE)
    assert not stopper.is_alive()
    assert fleet.runtime.liveness.number is None
    assert [attempt.state for attempt in fleet.attempts(lease_id)] == ["known"]
    assert is_free_and_due(fleet, lease_id)
    assert wait_until(lambda: not [t for t in threading.enumerate() if t.name == "sweeper"], timeout=PATIENCE)
    go_on(fleet, failing)
    fleet.drive_to(lease_id, "active")


def test_a_clean_stop_removes_its_heartbeat_at_once(fleet: Fleet) -> None:
    threads = InventoryThreads(fleet.runtime)
    threads.start()
    database = fleet.runtime.database
    assert wait_until(lambda: bool(database.all(HEARTBEATS)), timeout=PATIENCE, poll=0.01)
    assert [row.host for row in database.all(select(worker_heartbeat))] == [socket.gethostname()]
    threads.stop()
    assert database.all(HEARTBEATS) == []


def test_a_process_that_finishes_its_calls_still_reports(fleet: Fleet) -> None:
    """Calls may take longer than the time after which a host without reports is lost."""
    threads = InventoryThreads(fleet.runtime)
    threads.start()
    database = fleet.runtime.database
    assert wait_until(lambda: bool(database.all(HEARTBEATS)), timeout=PATIENCE, poll=0.01)
    threads.request_stop()
    database.run(update(worker_heartbeat).values(seen_at=func.now() - timedelta(hours=1)))
    assert wait_until(lambda: bool(database.all(HEARTBEATS)[0].processes), timeout=PATIENCE, poll=0.1)
    threads.stop()
    assert database.all(HEARTBEATS) == []
