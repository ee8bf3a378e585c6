"""A standby that lost the newest commits is promoted: the installation is on hold before anything is made, ended or freed."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import DBAPIError

from app.db.leases import process_locks
from app.db.schema.tables import lease
from app.local.embedded_postgres import FORGETFUL, SETTINGS, EmbeddedCluster, running
from app.local.ports import free_port
from app.local.waiting import wait_until
from app.settings import StartupError
from tests.harness.databases import Databases
from tests.harness.standby import PATIENCE, Pair, running_pair
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.virtual_time import RealTime, VirtualTime
from workers.observation.inventory import take_inventory
from workers.runtime.process_locks import free_of_the_dead

DEAD_PROCESS = 7


@pytest.fixture
def primary(server_directory: Path) -> Iterator[EmbeddedCluster]:
    """A server of this test's own, since it is killed."""
    folder = server_directory / f"failover-{secrets.token_hex(3)}"
    # a commit must be on its way to the standby when it is answered, not a moment later
    settings = {**SETTINGS, **FORGETFUL, "synchronous_commit": "on"}
    cluster = EmbeddedCluster(folder / "primary", free_port(), secrets.token_hex(16), settings)
    with running(cluster):
        yield cluster


@pytest.fixture
def pair(primary: EmbeddedCluster) -> Iterator[Pair]:
    with running_pair(primary.data_dir.parent, primary) as pair:
        yield pair


@pytest.fixture
def database_url(pair: Pair) -> Iterator[str]:
    """The fleet's database is on the server in charge."""
    databases = Databases(pair.admin_url)
    with closing(databases), databases.fresh() as url:
        yield url


@pytest.fixture
def virtual_time() -> VirtualTime:
    """Servers of this test's own."""
    return RealTime()


def step(fleet: Fleet) -> None:
    """Moves every due lease once, over connections to the server that is in charge now."""

    def stepped() -> bool:
        try:
            fleet.step()
        except DBAPIError:
            return False
        return True

    fleet.may_break_off = True
    assert wait_until(stepped, timeout=PATIENCE)


def rest(fleet: Fleet, *leases: str) -> None:
    """Nobody moves these leases on this server."""
    fleet.runtime.database.run(update(lease).where(lease.c.id.in_(leases)).values(next_due=None))


def adopt_and_resume(fleet: Fleet) -> None:
    """What the runbook asks of an operator."""
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.adopt()
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.resume()


def hold_by_dead_process(fleet: Fleet, lease_id: str) -> None:
    """As when the process with this number was killed while it moved the lease."""
    held = {"claim_id": process_locks.claim_id(DEAD_PROCESS), "held_until": text("now() + interval '1 hour'")}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(**held))


def test_a_promotion_that_lost_commits_sets_the_hold_within_one_step(
    fleet: Fleet, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pause = text(str(process_locks.FREE).replace("- interval '10 seconds'", ""))
    monkeypatch.setattr(process_locks, "FREE", without_pause)
    kept, ending, held = fleet.active(), fleet.active(), fleet.active()
    fleet.end(ending)
    hold_by_dead_process(fleet, held)
    fleet.make_due(held)
    waiting = fleet.create()
    pair.stop_streaming()
    before = fleet.sim.calls()
    rest(fleet, ending, waiting)
    lost = fleet.active()
    (lost_vm,) = [vm["id"] for vm in fleet.vms() if vm["tags"]["gpulease-lease"] == lost]
    assert fleet.runs() == before["RunInstances"] + 1

    pair.fail_over()
    step(fleet)
    assert fleet.lease(lost) is None, "the commits of this lease must be lost, or the test shows nothing"
    assert "another PostgreSQL cluster or timeline" in fleet.hold()["reason"]
    fleet.make_due(ending)
    fleet.make_due(waiting)
    step(fleet)
    with fleet.runtime.database.outside_pool() as connection:
        assert free_of_the_dead(connection) == 0, "no claim is freed by locks that another server kept"
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    after = fleet.sim.calls()
    assert after["RunInstances"] == before["RunInstances"] + 1, "no create call"
    assert after.get("TerminateInstances", 0) == before.get("TerminateInstances", 0), "no terminate call"
    assert fleet.is_alive(lost_vm)

    adopt_and_resume(fleet)
    with fleet.runtime.database.outside_pool() as connection:
        assert free_of_the_dead(connection) == 1, "the promoted server counts once an operator has resumed"
    fleet.drive_to(ending, "released")
    fleet.drive_to(waiting, "active")
    assert [fleet.drive_to(one, "active").state for one in (kept, held, lost)] == ["active"] * 3
    assert len(fleet.vms()) == 4


def test_a_worker_that_starts_on_a_promoted_standby_asks_no_cloud_before_the_hold(
    fleet: Fleet, pair: Pair, make_fleet: Callable[..., Fleet]
) -> None:
    waiting = fleet.create()
    pair.stop_streaming()
    rest(fleet, waiting)
    fleet.active()
    calls = fleet.sim.calls()
    pair.forwarder.point_to(pair.standby.port)
    with pytest.raises(StartupError, match="read-only"):
        make_fleet(observe=False)
    pair.fail_over()
    started = make_fleet(observe=False)
    assert "another PostgreSQL cluster or timeline" in started.hold()["reason"]
    step(started)
    assert fleet.sim.calls() == calls
    adopt_and_resume(started)
    started.drive_to(waiting, "active")
