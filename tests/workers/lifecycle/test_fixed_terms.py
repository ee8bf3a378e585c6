"""Accounts whose leases may not be extended: Google itself ends each VM at the end of its lease."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.ids import LeaseId
from app.settings import load_settings
from cloudsim.testing import Control
from tests.workers.clouds import ENVIRONMENT, PLACES, account_text, request
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import VirtualTime
from workers.lifecycle.steps import plan
from workers.process.bootstrap import build_runtime

GRACE = 1800
TOTAL = 864_000
"""The longest total term of the fleet's tenant."""
Start = Callable[..., Fleet]


@pytest.fixture
def start(
    worker_settings: dict[str, Any],
    sim: Control,
    virtual_time: VirtualTime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Start]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    fleets: list[Fleet] = []

    def make(**settings: str) -> Fleet:
        config = tmp_path / "gpulease.toml"
        config.write_text(account_text("gcp", sim.url, tmp_path, **settings))
        given = {**worker_settings, "config": config}
        runtime = build_runtime(load_settings(**given, deadline_grace_seconds=GRACE), monotonic=virtual_time.monotonic)
        fleets.append(Fleet(runtime, sim, observe=True, region=PLACES["gcp"]["region"], virtual_time=virtual_time))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


def longest_run(fleet: Fleet, lease_id: LeaseId) -> int:
    """Seconds after which Google deletes the VM."""
    (attempt,) = fleet.attempts(lease_id)
    scheduling: dict[str, Any] = attempt.params["instance"]["scheduling"]
    assert scheduling["instanceTerminationAction"] == "DELETE"
    return int(scheduling["maxRunDuration"]["seconds"])


def test_google_ends_a_vm_with_its_lease_where_leases_are_not_extended(start: Start) -> None:
    fleet = start(extendable="false")
    lease_id = fleet.create(**request("gcp"), ttl=3600)
    lease = fleet.drive_to(lease_id, "active")
    assert 3600 + GRACE - 10 <= longest_run(fleet, lease_id) <= 3600 + GRACE
    assert lease.placement["extendable"] is False


def test_google_ends_a_vm_with_the_longest_term_elsewhere(start: Start) -> None:
    fleet = start()
    lease_id = fleet.create(**request("gcp"), ttl=3600)
    lease = fleet.drive_to(lease_id, "active")
    assert longest_run(fleet, lease_id) == TOTAL + GRACE
    assert lease.placement["extendable"] is True


def test_an_extension_before_the_vm_is_planned_counts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extended between the look at the lease and the plan: the plan is made anew."""
    fleet = start(extendable="false")
    lease_id = fleet.create(**request("gcp"), ttl=3600)
    store = plan.store_attempts
    extended: list[LeaseId] = []

    def store_after_an_extension(*arguments: Any) -> Any:
        if not extended:
            extended.append(lease_id)
            fleet.extend(lease_id, 7200)
        return store(*arguments)

    monkeypatch.setattr("workers.lifecycle.steps.place.store_attempts", store_after_an_extension)
    fleet.drive_to(lease_id, "active")
    assert extended
    assert 7200 + GRACE - 10 <= longest_run(fleet, lease_id) <= 7200 + GRACE
