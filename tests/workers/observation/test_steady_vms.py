"""A VM that runs and has its addresses is not read in each pass of the watch."""

import pytest

from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation import steady_vms
from workers.observation.steady_vms import SteadyVms
from workers.observation.watch import watch

PLACE = (ACCOUNT, REGION)


def booting(fleet: Fleet) -> str:
    """A VM that runs, is stored as such, and is not ready."""
    fleet.sim.fault("DescribeInstanceStatus", "lose_reply", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: [one.vm_state for one in fleet.attempts(lease_id)] == ["running"])
    (attempt,) = fleet.attempts(lease_id)
    assert attempt.public_ip
    assert attempt.private_ip
    fleet.sim.clear_faults()
    return str(attempt.instance_id)


def reads(fleet: Fleet) -> int:
    return int(fleet.sim.calls()["DescribeInstances"])


def test_a_steady_vm_is_only_asked_whether_it_is_ready(fleet: Fleet) -> None:
    booting(fleet)
    runtime, before = fleet.runtime, reads(fleet)
    assert watch(runtime, *PLACE) == 1
    assert reads(fleet) == before
    lease_id = fleet.states()[0][0]
    assert [one.ready for one in fleet.attempts(lease_id)] == [True]
    assert fleet.drive_to(lease_id, "active").connection["public_ip"]


def test_a_vm_that_ends_while_it_boots_is_noticed_at_the_next_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    vm_id = booting(fleet)
    fleet.sim.stop(vm_id)
    fleet.wait_for(lambda: not fleet.is_alive(vm_id))
    watch(fleet.runtime, *PLACE)
    lease_id = fleet.states()[0][0]
    assert [(one.vm_state, one.ready) for one in fleet.attempts(lease_id)] == [("running", False)]
    monkeypatch.setattr(steady_vms, "READ_AGAIN_SECONDS", 0.0)
    watch(fleet.runtime, *PLACE)
    assert [one.vm_state for one in fleet.attempts(lease_id)] == ["gone"]


def test_a_vm_that_shall_end_is_read_in_each_pass(fleet: Fleet) -> None:
    booting(fleet)
    lease_id = fleet.states()[0][0]
    fleet.end(lease_id)
    before = reads(fleet)
    watch(fleet.runtime, *PLACE)
    assert reads(fleet) == before + 1


def test_a_read_is_good_for_a_few_seconds() -> None:
    now = [1000.0]
    steady = SteadyVms(lambda: now[0])
    steady.read(["vm-1"])
    now[0] += steady_vms.READ_AGAIN_SECONDS / 2
    steady.read(["vm-2"])
    assert set(steady.recent()) == {"vm-1", "vm-2"}
    now[0] += steady_vms.READ_AGAIN_SECONDS / 2
    assert set(steady.recent()) == {"vm-2"}
