"""One VM that refuses to end, or one leftover that cannot be removed, keeps nothing else from its end."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.settings import AccountSettings, Settings, load_settings
from cloudsim.testing import Control
from tests.workers.clouds import CLOUDS, ENVIRONMENT, PLACES, REFUSALS, account_text, request
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import VirtualTime
from workers.observation.leftovers import sweep_leftovers
from workers.process.bootstrap import build_runtime
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.providers.types import LaunchSpec, Params

POISON = "poison"
"""The name of the lease of which something stays."""
KEPT = {"aws": "network_interface", "gcp": "volume", "azure": "volume"}
"""What stays of it: an interface, or a disk."""
LEFTOVER_REFUSALS = {"aws": "InvalidParameterValue", "gcp": "resourceNotReady", "azure": "ScopeLocked"}
Start = Callable[..., Fleet]


def keep(provider: str, params: Params) -> Params:
    """The same launch, but its interface or disk outlives the VM."""
    if provider == "aws":
        return params | {"NetworkInterfaces": [params["NetworkInterfaces"][0] | {"DeleteOnTermination": False}]}
    if provider == "gcp":
        return params | {
            "instance": params["instance"] | {"disks": [params["instance"]["disks"][0] | {"autoDelete": False}]}
        }
    properties = params["vm"]["properties"]
    disk = properties["storageProfile"]["osDisk"] | {"deleteOption": "Detach"}
    storage = properties["storageProfile"] | {"osDisk": disk}
    return params | {"vm": params["vm"] | {"properties": properties | {"storageProfile": storage}}}


def connect_keeping(account: AccountSettings, settings: Settings) -> Provider:
    """An account whose VMs of one lease leave something behind."""
    provider = connect(account, settings)
    plan = provider.plan

    def plan_keeping(spec: LaunchSpec) -> Params:
        params = plan(spec)
        return keep(account.provider, params) if spec.name == POISON else params

    provider.plan = plan_keeping  # pyrefly: ignore[method-assign]
    return provider


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

    def make(provider: str, **changes: Any) -> Fleet:
        config = tmp_path / "gpulease.toml"
        config.write_text(account_text(provider, sim.url, tmp_path))
        given = {**worker_settings, "config": config, **changes}
        runtime = build_runtime(
            load_settings(**given), connect_account=connect_keeping, monotonic=virtual_time.monotonic
        )
        fleets.append(Fleet(runtime, sim, observe=True, region=PLACES[provider]["region"], virtual_time=virtual_time))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


def plant(fleet: Fleet, provider: str, count: int) -> list[str]:
    """Running VMs of this installation without any row."""
    tags = {"gpulease-installation": fleet.runtime.installation.id}
    return fleet.sim.plant(provider=provider, **PLACES[provider], tags=tags, count=count)


def running(fleet: Fleet) -> set[str]:
    return {vm["id"] for vm in fleet.vms() if vm["state"] in {"pending", "running"}}


@pytest.mark.parametrize("provider", CLOUDS)
def test_an_orphan_that_refuses_to_end_protects_no_other(start: Start, provider: str) -> None:
    fleet = start(provider)
    first, protected, last = plant(fleet, provider, 3)
    fleet.sim.protect(protected, provider=provider)
    fleet.drive(lambda: running(fleet) == {protected})
    fleet.observe()
    errors = {orphan.instance_id.rpartition(":")[2]: orphan.end_error for orphan in fleet.orphans()}
    assert errors[protected]["code"] == REFUSALS[provider]
    assert errors[protected]["message"]
    assert errors[first] is None
    assert errors[last] is None


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_lease_whose_vm_refuses_to_end_says_so_and_ends_later(start: Start, provider: str) -> None:
    fleet = start(provider)
    lease_id, other = fleet.active(**request(provider)), fleet.active(**request(provider))
    (vm,) = [vm for vm in fleet.vms() if fleet.lease(lease_id).placement["instance_id"].endswith(vm["id"])]
    fleet.sim.protect(vm["id"], provider=provider)
    for one in (lease_id, other):
        fleet.end(one)
    fleet.drive_to(other, "released")
    fleet.drive(lambda: "not ended yet" in fleet.lease(lease_id).reason["message"])
    stuck = fleet.lease(lease_id)
    assert (stuck.state, stuck.reason["code"]) == ("releasing", "released_by_user")
    assert f"the provider does not end the VM ({REFUSALS[provider]})" in stuck.reason["message"]
    assert fleet.events(lease_id).count("lease.release_blocked") == 1
    (attempt,) = fleet.attempts(lease_id)
    assert attempt.error["code"] == REFUSALS[provider]
    for _ in range(3):
        fleet.make_due(lease_id)
        fleet.step()
    assert fleet.events(lease_id).count("lease.release_blocked") == 1, "told once for each reason"
    fleet.sim.protect(vm["id"], provider=provider, protected=False)
    fleet.make_due(lease_id)
    ended = fleet.drive_to(lease_id, "released")
    assert "not ended yet" not in ended.reason["message"]
    assert fleet.account().state == "ok"


def test_a_vm_that_is_still_changing_is_no_obstacle_to_a_release(start: Start) -> None:
    fleet = start("gcp")
    lease_id = fleet.active(**request("gcp"))
    fleet.sim.fault("instances.delete", "error", provider="gcp", code="resourceNotReady")
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert "lease.release_blocked" not in fleet.events(lease_id)


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_leftover_that_cannot_be_removed_stops_no_other_lease(start: Start, provider: str) -> None:
    fleet = start(provider, release_alarm_seconds=0.01)
    poison, other = fleet.active(**request(provider), name=POISON), fleet.active(**request(provider))
    vm_id = fleet.lease(poison).placement["instance_id"].rpartition(":")[2]
    (kept,) = [
        one["id"]
        for one in fleet.sim.resources(provider=provider)
        if one["instance_id"] == vm_id and one["kind"] == KEPT[provider]
    ]
    fleet.sim.protect(kept, provider=provider)
    for one in (poison, other):
        fleet.end(one)
    fleet.drive_to(other, "released")
    fleet.drive(lambda: "not ended yet" in fleet.lease(poison).reason["message"])
    stuck = fleet.lease(poison)
    assert stuck.state == "releasing"
    assert f"{KEPT[provider]} cannot be removed ({LEFTOVER_REFUSALS[provider]})" in stuck.reason["message"]
    assert fleet.account().state == "ok"
    fleet.sim.protect(kept, provider=provider, protected=False)
    ended = fleet.drive_to(poison, "released")
    assert "not ended yet" not in ended.reason["message"]
    assert fleet.sim.resources(provider=provider) == []


def test_a_booting_vm_that_cannot_be_asked_stops_no_clean_up(start: Start) -> None:
    fleet = start("aws", boot_timeout=60.0)
    ending = fleet.active(**request("aws"))
    booting = fleet.create(**request("aws"))
    fleet.sim.fault("DescribeInstanceStatus", "error", times=None)
    fleet.drive_to(booting, "booting")
    fleet.end(ending)
    fleet.drive_to(ending, "released")
    assert fleet.lease(booting).state == "booting"


def test_a_leftover_of_an_ended_lease_that_cannot_be_removed_keeps_no_other(start: Start) -> None:
    fleet = start("aws")
    lease_id = fleet.active(**request("aws"))
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    tags = {
        "gpulease-installation": fleet.runtime.installation.id,
        "gpulease-lease": lease_id,
        "gpulease-attempt": "1",
    }
    first, protected, last = (fleet.make_address(tags) for _ in range(3))
    fleet.sim.protect(protected)
    assert sweep_leftovers(fleet.runtime, "sim", "us-east-1") == 2
    assert {one["id"] for one in fleet.sim.resources()} == {protected}
    assert not {first, last} & {one["id"] for one in fleet.sim.resources()}


def test_a_disk_that_takes_no_deadline_does_not_hold_up_that_of_its_vm(start: Start) -> None:
    """The VM's own label is the one that the dead-man switch goes by."""
    fleet = start("gcp")
    lease_id = fleet.active(**request("gcp"))
    fleet.sim.fault("disks.setLabels", "error", code="invalid", times=None, provider="gcp")
    fleet.extend(lease_id, 7200)
    fleet.make_due(lease_id)
    fleet.step()
    lease = fleet.lease(lease_id)
    (vm,) = fleet.vms()
    applied = lease.expires_at + timedelta(seconds=fleet.runtime.timing.deadline_grace)
    assert lease.deadline_applied == applied
    assert vm["tags"]["gpulease-deadline"] == str(int(applied.timestamp()))
    assert fleet.attempts(lease_id)[0].error is None
