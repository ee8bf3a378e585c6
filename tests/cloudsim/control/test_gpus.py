"""`PUT /_sim/gpus`: whose GPUs are broken, and how."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from cloudsim.testing import NO_TLS, Control, running
from cloudsim.world import HEALTHY, GpuCondition
from cloudsim.world.gpus import GpuConditions
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Launch

BROKEN, IDLE = GpuCondition(visible=7), GpuCondition(utilization=0)


def test_a_condition_of_a_type_is_that_of_its_later_vms() -> None:
    conditions = GpuConditions()
    assert conditions.of_launch("aws", "g5.xlarge") == HEALTHY
    conditions.put("aws", "g5.xlarge", BROKEN)
    assert conditions.of_launch("aws", "g5.xlarge") == BROKEN
    assert conditions.of_launch("aws", "g6.xlarge") == conditions.of_launch("gcp", "g5.xlarge") == HEALTHY
    conditions.put("aws", None, IDLE)
    assert conditions.of_launch("aws", "g5.xlarge") == conditions.of_launch("aws", "g6.xlarge") == IDLE
    conditions.put("aws", None, HEALTHY)
    assert conditions.of_launch("aws", "g5.xlarge") == HEALTHY


def test_a_vm_or_later_vms_get_other_gpus(sim: Control, launch: Launch) -> None:
    (vm,) = sim.plant(region="us-east-1", instance_type="p4d.24xlarge")
    sim.gpus(instance_id=vm, visible=7, xids=[79], agent="no_network")
    sim.gpus(instance_type="g5.xlarge", visible=0, utilization=0)
    broken, repaired = launch()["InstanceId"], launch()["InstanceId"]
    sim.gpus(instance_id=repaired)
    conditions = {truth["id"]: truth["gpus"] for truth in sim.instances()}
    usual = asdict(HEALTHY) | {"xids": []}
    assert conditions == {
        vm: {**usual, "visible": 7, "xids": [79], "agent": "no_network"},
        broken: {**usual, "visible": 0, "utilization": 0},
        repaired: None,
    }


def test_a_reboot_clears_xid_errors_and_the_recovery_action(
    sim: Control, launch: Launch, ec2: Any, clock: ManualClock
) -> None:
    vm = launch()["InstanceId"]
    clock.forward(2)
    sim.gpus(instance_id=vm, xids=[48], recovery_action="reset", remap_failed=True)
    ec2.reboot_instances(InstanceIds=[vm])
    (truth,) = sim.instances()
    assert truth["gpus"] == asdict(HEALTHY) | {"xids": [], "remap_failed": True}


def test_a_restart_keeps_conditions(tmp_path: Path) -> None:
    with running(clock=ManualClock(), state=tmp_path / "state") as sim:
        (vm,) = sim.plant(region="us-east-1", instance_type="p4d.24xlarge")
        sim.gpus(instance_id=vm, visible=7, xids=[79])
        sim.gpus(instance_type="g5.xlarge", utilization=0)
    with running(clock=ManualClock(), state=tmp_path / "state") as sim:
        sim.plant(region="us-east-1", instance_type="g5.xlarge")
        kept, launched = (truth["gpus"] for truth in sim.instances())
        assert (kept["visible"], kept["xids"], launched["utilization"]) == (7, [79], 0)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"provider": "moon"},
        {"provider": "aws", "instance_id": "i-1"},
        {"provider": "aws", "instance_type": "x"},
        {"provider": "aws", "instance_type": "g5.xlarge", "visible": 2},
        {"provider": "aws", "visible": -1},
        {"provider": "aws", "visible": 9},
        {"provider": "aws", "xids": [0]},
        {"provider": "aws", "xids": [79] * 65},
        {"provider": "aws", "utilization": 101},
        {"provider": "aws", "agent": "asleep"},
        {"provider": "aws", "model": ""},
        {"provider": "aws", "temperature": 90},
    ],
)
def test_senseless_conditions_are_refused_in_words(sim: Control, body: Any) -> None:
    answer = httpx.put(f"{sim.url}/_sim/gpus", json=body, trust_env=False, verify=NO_TLS)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


def test_a_vm_that_has_ended_has_no_gpus(sim: Control, clock: ManualClock) -> None:
    (vm,) = sim.plant(region="us-east-1", instance_type="g5.xlarge")
    sim.stop(vm)
    clock.forward(10)
    with pytest.raises(httpx.HTTPStatusError, match="has no GPUs any more"):
        sim.gpus(instance_id=vm)
    (other,) = sim.plant(region="us-east-1", instance_type="g5.xlarge")
    with pytest.raises(httpx.HTTPStatusError, match="has one type"):
        sim.gpus(instance_id=other, instance_type="g5.xlarge")
