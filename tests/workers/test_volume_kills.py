"""Workers are killed at each step by which volumes are made, attached, detached and deleted: none is lost or doubled."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from threading import Event

import pytest

from app.domain.ids import LeaseId
from tests.failpoints.actions import Action, arm
from tests.failpoints.points import names
from tests.harness.forks import ForkServer, Program
from tests.workers.fleet import Fleet
from tests.workers.kills import start_worker
from tests.workers.volumes import VolumeFleet

KILLS = int(os.environ.get("GPULEASE_KILLS", "12"))
"""More of them by hand: GPULEASE_KILLS=100."""
PATIENCE = 3000
"""Looks at one phase."""
CREATING = ("jobs.volumes._work:mark_sent", "jobs.volumes._ensure_disk:", "jobs.volumes._create:make_available")
ATTACHING = ("attach.attach:", "attach._attach:attach_volume", "enter.")
DETACHING = ("terminate.", "end.close_attempt", "end.finish")
DELETING = ("jobs.volumes._work:mark_sent", "jobs.volumes._delete:", "jobs.volumes._end:")
PHASES = {"created": CREATING, "attached": ATTACHING, "detached": DETACHING, "deleted": DELETING}


def points_of(beginnings: tuple[str, ...]) -> list[str]:
    return [name for name in names() if name.startswith(beginnings)]


class Story:
    """One volume after the other, each with a lease, and workers that die on the way."""

    def __init__(self, volumes: VolumeFleet, start: Callable[[], Program], folder: Path) -> None:
        self.volumes, self.fleet = volumes, volumes.fleet
        self._start, self._folder = start, folder
        self._random = Random(7)
        self.killed: Counter[str] = Counter()
        self.at: set[str] = set()
        self._turns: dict[str, list[str]] = {}
        self._worker: Program | None = None
        self._point = ""

    def phase(self, name: str, done: Callable[[], bool]) -> None:
        """Works towards `done`. A worker that is killed is followed by one that lives, and that one is not armed."""
        self._arm(name)
        for _ in range(PATIENCE):
            if done():
                return
            self._look(name)
            self._check()
            self.fleet.let_pass(0.3)
            Event().wait(0.02)
        pytest.fail(f"not {name}: {self.fleet.states()[-1]}, {self.volumes.disks()}")

    def _arm(self, name: str) -> None:
        """One of the points of a phase, each in its turn."""
        for file in self._folder.iterdir():
            file.unlink()
        turn = self._turns.setdefault(name, self._random.sample(points_of(PHASES[name]), len(points_of(PHASES[name]))))
        self._point = turn[0]
        turn.append(turn.pop(0))
        arm(self._folder, self._point, Action.KILL)

    def _look(self, name: str) -> None:
        if self._worker is not None:
            code = self._worker.poll()
            if code is None:
                return
            assert code == -signal.SIGKILL, "the worker failed by itself"
            self.killed[name] += 1
            self.at.add(self._point)
        self.fleet.end_claims(*self._open_leases())
        self.fleet.let_pass(3.0)
        self._worker = self._start()

    def _open_leases(self) -> list[LeaseId]:
        """Their claims are those of a dead process, which nobody frees in a test's time."""
        return [LeaseId(row[0]) for row in self.fleet.states() if row[1] not in ("released", "failed")]

    def close(self) -> None:
        """No worker stays."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()

    def _check(self) -> None:
        """No volume has two disks, and no disk of an available volume is gone."""
        disks = self.volumes.disks()
        of_rows = Counter(disk["tags"]["gpulease-volume"] for disk in disks)
        assert all(count == 1 for count in of_rows.values()), disks
        there = {disk["id"] for disk in disks}
        for row in self.volumes.rows("available"):
            assert row.cloud_id in there, f"{row.id} has lost its disk"

    def run_once(self, number: int) -> None:
        volumes, fleet = self.volumes, self.fleet
        volume_id = volumes.create(f"v{number}")
        self.phase("created", lambda: volumes.row(volume_id).state == "available")
        cloud_id = volumes.row(volume_id).cloud_id
        lease_id = volumes.lease(f"v{number}")
        self.phase("attached", lambda: fleet.lease(lease_id).state == "active")
        (attempt,) = fleet.attempts(lease_id)
        (disk,) = volumes.disks()
        assert (disk["id"], disk["instance_id"]) == (cloud_id, attempt.instance_id)
        fleet.end(lease_id)
        self.phase("detached", lambda: fleet.lease(lease_id).state == "released")
        assert volumes.row(volume_id).lease_id is None
        assert [disk["id"] for disk in volumes.disks()] == [cloud_id]
        volumes.delete(volume_id)
        self.phase("deleted", lambda: volumes.row(volume_id).state == "deleted")
        assert volumes.disks() == []


@pytest.fixture
def story(make_fleet: Callable[..., Fleet], forks: ForkServer, tmp_path: Path) -> Iterator[Story]:
    fleet = make_fleet(agent="off", boot_timeout=100_000.0, boot_timeout_large=100_000.0, launch_timeout=100_000.0)
    fleet.sim.settings(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0)
    folder = tmp_path / "armed"
    folder.mkdir()
    settings = fleet.runtime.settings.model_dump(mode="json")
    made = Story(VolumeFleet(fleet), partial(start_worker, forks, settings, folder), folder)
    yield made
    made.close()


def test_kills_lose_no_volume_double_none_and_attach_none_twice(story: Story) -> None:
    number = 0
    while story.killed.total() < KILLS or story.killed.keys() != PHASES.keys():
        story.run_once(number)
        number += 1
        assert number < 2 * KILLS, f"too few workers died: {story.killed}"
    assert len(story.at) > min(KILLS, 30) // 2, sorted(story.at)
    assert story.fleet.used() == {}
