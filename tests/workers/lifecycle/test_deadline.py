"""The deadline tag, and the command that ends VMs by it when nothing else of ours is left."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event
from typing import Any, cast

import boto3
import pytest

from app.domain.ids import LeaseId
from app.settings import AccountSettings, Settings
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.inventory import take_inventory
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.providers.types import BatchResult


def tagged(fleet: Fleet) -> int:
    (vm,) = fleet.vms()
    return int(vm["tags"]["gpulease-deadline"])


def expected(row: Any) -> int:
    deadline: datetime = row.expires_at + timedelta(seconds=1800)
    return int(deadline.timestamp())


def extended(fleet: Fleet, lease_id: LeaseId) -> Any:
    fleet.extend(lease_id, 7200)
    fleet.make_due(lease_id)
    return fleet.lease(lease_id)


def test_a_launched_vm_carries_its_deadline(fleet: Fleet) -> None:
    active = fleet.drive_to(fleet.create(), "active")
    assert tagged(fleet) == expected(active)
    assert fleet.sim.calls().get("CreateTags", 0) == 0, "nothing to renew: the tag came with the launch"


def test_an_extended_lease_gets_its_tag_renewed_on_every_resource(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    after = extended(fleet, lease_id)
    fleet.drive(lambda: tagged(fleet) == expected(after))
    fleet.drive(lambda: fleet.step() == 0)
    applied = fleet.lease(lease_id).deadline_applied
    assert applied == after.expires_at + timedelta(seconds=1800)
    assert {r["tags"]["gpulease-deadline"] for r in fleet.sim.resources()} == {str(expected(after))}


def test_a_tag_that_cannot_be_written_is_tried_again(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.sim.fault("CreateTags", "throttle", times=1)
    after = extended(fleet, lease_id)
    fleet.drive(lambda: tagged(fleet) == expected(after))


def put_tag(fleet: Fleet, at: datetime) -> None:
    """Somebody writes the deadline tag: a stalled worker's late call, or a person in the cloud's console."""
    provider = fleet.runtime.accounts.provider(ACCOUNT)
    (vm,) = fleet.vms()
    provider.set_deadline(REGION, [vm["id"]], at)


class Stalling:
    """An adapter whose next call that writes a deadline stalls before it is sent, until `go` is set."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.stalled, self.go = Event(), Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        self.stalled.set()
        assert self.go.wait(10)
        return self._provider.set_deadline(region, vm_ids, deadline)


def test_an_older_tag_that_lands_late_is_renewed_within_one_inventory_cycle(
    fleet: Fleet, make_fleet: Callable[..., Fleet]
) -> None:
    """Worker 1 stalls with the older tag and loses its claim, worker 2 writes the newer one, worker 1's tag lands."""
    lease_id = fleet.active()
    slow: list[Stalling] = []

    def connect_slow(account: AccountSettings, settings: Settings) -> Provider:
        slow.append(Stalling(connect(account, settings)))
        return cast("Provider", slow[0])

    stalling = make_fleet(connect_account=connect_slow, observe=False)
    older = extended(fleet, lease_id)
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(stalling.step)
        fleet.wait_for(lambda: bool(slow) and slow[0].stalled.is_set())
        fleet.end_claims(lease_id)
        fleet.extend(lease_id, 10_000)
        fleet.drive(lambda: fleet.step() == 0)
        newer = fleet.lease(lease_id)
        assert tagged(fleet) == expected(newer)
        slow[0].go.set()
        step.result(10)
    assert tagged(fleet) == expected(older), "the older tag has landed"
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    while fleet.step():
        pass
    assert tagged(fleet) == expected(newer)
    assert fleet.lease(lease_id).deadline_applied == newer.expires_at + timedelta(seconds=1800)


@pytest.mark.parametrize("seconds", [-86400, 86400])
def test_a_tag_that_somebody_changes_by_hand_is_put_right(fleet: Fleet, seconds: int) -> None:
    lease_id = fleet.active()
    before = fleet.lease(lease_id)
    put_tag(fleet, before.expires_at + timedelta(seconds=seconds))
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    while fleet.step():
        pass
    assert tagged(fleet) == expected(before)
    assert fleet.lease(lease_id).expires_at == before.expires_at, "a tag extends nothing"


@pytest.mark.parametrize("value", [None, "soon"])
def test_a_tag_that_somebody_removes_or_spoils_is_written_again(fleet: Fleet, value: str | None) -> None:
    lease_id = fleet.active()
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=fleet.sim.url)
    (vm,) = fleet.vms()
    if value is None:
        ec2.delete_tags(Resources=[vm["id"]], Tags=[{"Key": "gpulease-deadline"}])
    else:
        ec2.create_tags(Resources=[vm["id"]], Tags=[{"Key": "gpulease-deadline", "Value": value}])
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    while fleet.step():
        pass
    assert tagged(fleet) == expected(fleet.lease(lease_id))


def test_a_tag_that_is_right_is_written_once(fleet: Fleet) -> None:
    lease_id = fleet.active()
    extended(fleet, lease_id)
    fleet.drive(lambda: fleet.step() == 0)
    written = fleet.sim.calls()["CreateTags"]
    for _ in range(3):
        take_inventory(fleet.runtime, ACCOUNT, REGION)
        while fleet.step():
            pass
    assert fleet.sim.calls()["CreateTags"] == written
