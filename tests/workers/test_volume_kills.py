"""Workers are killed at each step by which volumes are made, attached, detached and deleted: none is lost or doubled."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from app.domain.ids import LeaseId
from tests.failpoints.actions import Action, arm
from tests.failpoints.points import names
from tests.workers.fleet import Fleet
from tests.workers.kills import Killed, killed_workers
from tests.workers.volumes import VolumeFleet

KILLS = 100
PATIENCE = 400
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

    def __init__(self, volumes: VolumeFleet, workers: Killed, folder: Path) -> None:
        self.volumes, self.fleet = volumes, volumes.fleet
        self._workers, self._folder = workers, folder
        self._random = Random(7)
        self.killed: Counter[str] = Counter()
        self.at: set[str] = set()

    def phase(self, name: str, done: Callable[[], bool]) -> None:
        """Works towards `done` with workers that are killed, at most two times, and then with one that lives."""
        for point in self._random.sample(points_of(PHASES[name]), 2):
            if not done():
                self._die_at(name, point, done)
        self._work_until(done)

    def _die_at(self, name: str, point: str, done: Callable[[], bool]) -> None:
        for file in self._folder.iterdir():
            file.unlink()
        arm(self._folder, point, Action.KILL)
        pid = self._workers.start()
        for _ in range(PATIENCE):
            code = self._workers.exit_code(pid)
            if code is not None:
                assert code == -signal.SIGKILL, "the worker failed by itself"
                self.killed[name] += 1
                self.at.add(point)
                break
            if done():
                os.kill(pid, signal.SIGKILL)
                while self._workers.exit_code(pid) is None:
                    self.fleet.let_pass(0.01)
                break
            self.fleet.let_pass(0.2)
        self._check()
        self._end_claims()
        self.fleet.let_pass(3.0)

    def _end_claims(self) -> None:
        """Nobody frees the claims of a dead process in a test's time."""
        self.fleet.end_claims(*self.leases())

    def leases(self) -> list[LeaseId]:
        return [LeaseId(row[0]) for row in self.fleet.states() if row[1] not in ("released", "failed")]

    def _work_until(self, done: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if done():
                return
            self.fleet.step()
            self.fleet.observe(inventory=False)
            self.volumes.work()
            self._check()
            self.fleet.let_pass(0.5)
        pytest.fail(f"not reached: {self.fleet.states()}, {self.volumes.disks()}")

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
def story(make_fleet: Callable[..., Fleet], tmp_path: Path) -> Iterator[Story]:
    fleet = make_fleet(agent="off", boot_timeout=100_000.0, boot_timeout_large=100_000.0, launch_timeout=100_000.0)
    fleet.sim.settings(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0)
    folder = tmp_path / "armed"
    folder.mkdir()
    with killed_workers(fleet.runtime.settings.model_dump(mode="json"), folder) as workers:
        yield Story(VolumeFleet(fleet), workers, folder)


def test_a_hundred_kills_lose_no_volume_double_none_and_attach_none_twice(story: Story) -> None:
    number = 0
    while story.killed.total() < KILLS:
        story.run_once(number)
        number += 1
        assert number < KILLS, f"too few workers died: {story.killed}"
    assert story.killed.keys() == PHASES.keys()
    assert len(story.at) > 15, sorted(story.at)
    assert story.fleet.used() == {}
