"""The GPUs that drivers of simulated VMs tell of, and the proofs that cloudsim makes of them."""

import pytest

from app.domain.gpus.reports import parse_proof, proofs_on_console
from cloudsim.arm.catalog import catalog as azure
from cloudsim.ec2.catalog import catalog as aws
from cloudsim.gce.catalog import catalog as gcp
from cloudsim.gpus.devices import devices
from cloudsim.gpus.proofs import console_line, proof
from cloudsim.gpus.records import RECORDS
from cloudsim.gpus.states import state
from cloudsim.world import HEALTHY, Catalog, Gpu, GpuCondition, Vm

EIGHT = Gpu("A100", "NVIDIA", 8, 40_960)
TOKEN = "0123456789abcdef" * 4


def vm(condition: GpuCondition = HEALTHY) -> Vm:
    made = Vm.__new__(Vm)
    made.id, made.booted_at, made.gpus = "i-1", None, condition
    return made


@pytest.mark.parametrize("catalog", [aws(), gcp(), azure()], ids=["aws", "gcp", "azure"])
def test_every_type_has_devices_whose_proof_can_be_read(catalog: Catalog) -> None:
    for machine in catalog.machines.values():
        found = devices("i-1", machine.gpu, GpuCondition(), 60)
        made = proof(vm(), machine.gpu.manufacturer, found, 1_790_000_000)
        read = parse_proof(made)
        assert len(read.gpus) == machine.gpu.count
        assert len({gpu.uuid for gpu in read.gpus}) == machine.gpu.count
        assert all((gpu.memory_mib or 0) > 0.9 * machine.gpu.memory_mib for gpu in read.gpus), machine
        line = console_line(TOKEN, made)
        assert len(line) <= 4096
        (on_console,) = proofs_on_console(f"kernel\r\n{line}\r\n", TOKEN)
        assert parse_proof(on_console).gpus[0].uuid == read.gpus[0].uuid


def test_a_condition_shows_in_the_devices() -> None:
    broken = GpuCondition(visible=7, model="Tesla T4", remap_failed=True, utilization=0)
    found = devices("i-1", EIGHT, broken, 60)
    assert [device.remap_failed for device in found] == [True] + [False] * 6
    assert {(device.model, device.utilization) for device in found} == {("Tesla T4", 0)}
    assert devices("i-1", EIGHT, GpuCondition(visible=0), 60) == []


def test_a_vm_is_busy_by_itself_and_its_load_changes() -> None:
    loads = [
        device.utilization
        for name in ("i-1", "i-2", "i-3", "i-4")
        for second in range(0, 7_200, 60)
        for device in devices(name, EIGHT, GpuCondition(), second)
    ]
    assert min(loads) > 5, "a sample at which all GPUs are idle ends leases"
    assert max(loads) <= 100
    assert max(loads) - min(loads) > 40


def test_a_state_names_a_record_of_the_fake_nvml() -> None:
    for catalog in (aws(), gcp(), azure()):
        for machine in catalog.machines.values():
            found = devices("i-1", machine.gpu, GpuCondition(xids=(79,)), 60)
            made = state(vm(GpuCondition(xids=(79,))), found)
            assert made["model"] in RECORDS
            assert (made["count"], made["xids"]) == (machine.gpu.count, [79])
