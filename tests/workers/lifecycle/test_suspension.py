"""A suspended tenant's lease keeps the VM that it has, and gets no other, in whatever way it would come by one."""

from collections.abc import Callable
from typing import Any

import pytest

from app.domain.ids import LeaseId
from app.domain.reasons import ReasonCode
from tests.workers.fleet import Fleet
from tests.workers.lifecycle.test_gpu_failures import break_gpu
from tests.workers.proofs import BROKEN, GOOD, drive_to_wait, prove

ENDED = ("released", "failed")


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    return make_fleet(agent="on", proof_seconds=120.0)


def _active(fleet: Fleet, **wishes: Any) -> LeaseId:
    lease_id = fleet.create(market="spot", **wishes)
    drive_to_wait(fleet, lease_id)
    prove(fleet, lease_id, GOOD)
    fleet.drive_to(lease_id, "active")
    return lease_id


def interrupted(fleet: Fleet) -> LeaseId:
    lease_id = _active(fleet, on_interruption="replace")
    fleet.suspend()
    fleet.sim.interrupt(fleet.lease(lease_id).placement["instance_id"], 0)
    return lease_id


def gpu_failed(fleet: Fleet) -> LeaseId:
    lease_id = _active(fleet, on_gpu_failure="replace")
    fleet.suspend()
    break_gpu(fleet, lease_id)
    return lease_id


def proof_failed(fleet: Fleet) -> LeaseId:
    lease_id = fleet.create()
    drive_to_wait(fleet, lease_id)
    fleet.suspend()
    prove(fleet, lease_id, BROKEN)
    return lease_id


def suspended_in_the_queue(fleet: Fleet) -> LeaseId:
    """The suspension itself ends such leases. This one came back to the queue at the same moment."""
    lease_id = fleet.create()
    fleet.suspend()
    return lease_id


WAYS = (interrupted, gpu_failed, proof_failed, suspended_in_the_queue)


@pytest.mark.parametrize("way", WAYS)
def test_a_lease_of_a_suspended_tenant_gets_no_other_vm(fleet: Fleet, way: Callable[[Fleet], LeaseId]) -> None:
    lease_id = way(fleet)
    calls = fleet.runs()
    ended = fleet.drive_to(lease_id, *ENDED)
    assert ended.reason["code"] == ReasonCode.TENANT_SUSPENDED
    assert (fleet.runs(), fleet.vms(), fleet.used()) == (calls, [], {})


def test_a_call_of_unknown_outcome_is_not_repeated_and_its_vm_is_ended(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=60.0)
    fleet.sim.fault("RunInstances", "lose_reply")
    lease_id = fleet.create()
    fleet.step()
    fleet.suspend()
    fleet.let_pass(2)
    fleet.step()
    assert fleet.lease(lease_id).state == "releasing"
    ended = fleet.drive_to(lease_id, *ENDED)
    assert ended.reason["code"] == ReasonCode.TENANT_SUSPENDED
    assert (fleet.runs(), fleet.vms()) == (1, [])


def test_what_runs_when_its_tenant_is_suspended_runs_on(fleet: Fleet) -> None:
    lease_id = _active(fleet)
    fleet.suspend()
    fleet.drive(lambda: fleet.rests(lease_id) > 10)
    assert fleet.lease(lease_id).state == "active"
