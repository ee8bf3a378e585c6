"""Workers are restarted while no inventory process runs: leases wait for one, and say so."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from app.db.schema.tables import lease
from app.local.waiting import wait_until
from tests.harness.forks import ForkServer
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import RealTime, VirtualTime
from tests.workers.worker_process import PATIENCE, running


@pytest.fixture
def virtual_time() -> VirtualTime:
    """Other processes run meanwhile."""
    return RealTime()


def test_a_lease_that_does_not_wait_for_capacity_waits_for_the_inventory(
    fleet: Fleet, tmp_path: Path, forks: ForkServer
) -> None:
    with running(fleet, tmp_path, forks=forks, listed=False):
        lease_id = fleet.create(wait_seconds=0)
        long_ago = {"wait_until": lease.c.wait_until - timedelta(minutes=10)}
        fleet.runtime.database.run(update(lease).values(**long_ago))
        assert wait_until(lambda: fleet.lease(lease_id).reason is not None, timeout=PATIENCE), fleet.states()
        waiting = fleet.lease(lease_id)
        assert (waiting.state, waiting.reason["code"]) == ("queued", "region_not_listed")
        with running(fleet, tmp_path, "inventory", forks=forks, listed=False):
            assert wait_until(lambda: fleet.lease(lease_id).state == "active", timeout=PATIENCE), fleet.states()
        fleet.end(lease_id)
        assert wait_until(lambda: fleet.lease(lease_id).state == "released", timeout=PATIENCE), fleet.states()
