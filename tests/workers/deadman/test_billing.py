"""What a lease costs whose VM the dead-man switch ended while no process of gpulease ran."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.settings import load_accounts, load_settings
from cloudsim.testing import Control
from tests.workers.clouds import CLOUDS, ENVIRONMENT, PLACES, account_text, request
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.virtual_time import VirtualTime
from workers.deadman.sweep import Deadman
from workers.process.bootstrap import build_runtime
from workers.providers.registry import connect

GRACE = 20.0
PASS = timedelta(seconds=10)


class Outage:
    """A fleet at one cloud, whose processes do nothing while `until_the_switch` lets time pass."""

    def __init__(self, fleet: Fleet, config: Path) -> None:
        self.fleet = fleet
        settings = load_settings()
        accounts = [(one, connect(one, settings)) for one in load_accounts(config).values()]
        self._switch = Deadman(
            installation=fleet.runtime.installation.id, accounts=accounts, clock=fleet.now, report=lambda _: None
        )

    def active(self, ttl: float, **changes: Any) -> Any:
        lease_id = self.fleet.active(ttl=ttl, **changes)
        self.fleet.observe()
        return lease_id

    def ended_by_the_switch(self) -> datetime:
        """When the switch ended the only VM: in its first pass after the deadline."""
        (vm,) = self.fleet.vms()
        left = int(vm["tags"]["gpulease-deadline"]) - self.fleet.now().timestamp()
        self.fleet.let_pass(left - PASS.total_seconds() / 2)
        assert self._switch.run()
        assert self.fleet.vms(), "its deadline is not over"
        self.fleet.let_pass(PASS.total_seconds())
        assert self._switch.run()
        assert self.fleet.vms() == []
        return self.fleet.now()

    def is_over(self, lease_id: Any) -> Any:
        self.fleet.observe()
        self.fleet.make_due(lease_id)
        return self.fleet.drive_to(lease_id, "released", "failed", seconds=600.0)


@pytest.fixture
def outage(
    request_provider: str,
    worker_settings: dict[str, Any],
    sim: Control,
    virtual_time: VirtualTime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "gpulease.toml"
    config.write_text(account_text(request_provider, sim.url, tmp_path))
    given = {**worker_settings, "config": config, "deadline_grace_seconds": GRACE}
    runtime = build_runtime(load_settings(**given), monotonic=virtual_time.monotonic)
    region = PLACES[request_provider]["region"]
    fleet = Fleet(runtime, sim, observe=True, account=ACCOUNT, region=region, virtual_time=virtual_time)
    yield Outage(fleet, config)
    fleet.close()


@pytest.mark.parametrize("seconds", [60.0, 2 * 3600.0, 8 * 3600.0])
@pytest.mark.parametrize("request_provider", CLOUDS)
def test_it_is_charged_until_the_switch_ended_its_vm(outage: Outage, request_provider: str, seconds: float) -> None:
    """However long nobody looked, and although Azure tells no time of the end and EC2 forgets the VM."""
    lease_id = outage.active(seconds / 2, **request(request_provider))
    ended_at = outage.ended_by_the_switch()
    outage.fleet.let_pass(seconds / 2)
    charged_until = outage.is_over(lease_id).billing_ended_at
    assert ended_at - PASS - timedelta(seconds=2) <= charged_until <= ended_at


@pytest.mark.parametrize("request_provider", ["azure"])
def test_a_spot_vm_is_charged_until_it_was_last_seen(outage: Outage, request_provider: str) -> None:
    """The provider may have taken it at any time."""
    lease_id = outage.active(3600.0, **request(request_provider), market="spot")
    seen_at = outage.fleet.now()
    outage.ended_by_the_switch()
    assert outage.is_over(lease_id).billing_ended_at <= seen_at
