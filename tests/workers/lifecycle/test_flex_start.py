"""A lease that waits in Google's own queue for capacity: flex-start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import load_settings
from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, REGION, key_file
from tests.workers.virtual_time import VirtualTime
from workers.jobs.observe_reservations import observe_reservations
from workers.process.bootstrap import build_runtime

_LAUNCH_TIMEOUT = 0.3
_IN_QUEUE = 1.5


@pytest.fixture
def fleet(worker_settings: dict[str, Any], sim: Control, virtual_time: VirtualTime, tmp_path: Path) -> Iterator[Fleet]:
    config = tmp_path / "gpulease.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "gcp"\nname = "{ACCOUNT}"\nproject = "{PROJECT}"\nregions = ["{REGION}"]\n'
        f'endpoint_url = "{sim.url}"\ncredentials_file = "{key_file(tmp_path, sim.url, EMAIL)}"\n'
        f'[[accounts.reservations]]\nname = "queue"\nkind = "flex_start"\nregion = "{REGION}"\nzone = "{REGION}-a"\n'
        'instance_type = "g2-standard-4"\nprice_per_hour = "0.4"\n'
    )
    given = {**worker_settings, "config": config}
    runtime = build_runtime(
        load_settings(**(given | {"launch_timeout": _LAUNCH_TIMEOUT})), monotonic=virtual_time.monotonic
    )
    fleet = Fleet(runtime, sim, observe=True, region=REGION, virtual_time=virtual_time)
    observe_reservations(runtime, ACCOUNT, REGION)
    yield fleet
    fleet.close()


def test_a_lease_waits_in_googles_queue_longer_than_a_launch_may_take(fleet: Fleet, sim: Control) -> None:
    sim.settings(queue_seconds=_IN_QUEUE)
    wish: dict[str, Any] = {"gpu": {"model": "L4", "count": 1, "memory_gib": None}, "instance_types": ["g2-standard-4"]}
    lease_id = fleet.create(**wish, market="reserved", wait_seconds=600)
    fleet.drive(lambda: (fleet.lease(lease_id).placement or {}).get("queued_at_provider") is not None)
    waiting = fleet.lease(lease_id)
    assert (waiting.state, waiting.rate_per_hour) == ("provisioning", None)

    active = fleet.drive_to(lease_id, "active")
    assert active.placement["queued_at_provider"] is None
    assert [str(attempt.price_per_hour) for attempt in fleet.attempts(lease_id)] == ["0.400000"]
    assert active.placement["reservation"] == "queue"
    assert (active.running_at - active.launched_at).total_seconds() > _IN_QUEUE > _LAUNCH_TIMEOUT
