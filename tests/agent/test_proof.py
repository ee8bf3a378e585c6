"""What the agent proves, with each kind of GPU and each fault, and that the API can read it."""

import json

import pytest

from app.agent import gpulease_agent
from app.domain.gpus.reports import (
    LONGEST_CONSOLE_LINE,
    AgentError,
    Matmul,
    RecoveryAction,
    parse_proof,
    proofs_on_console,
)
from cloudsim.gpus.records import RECORDS
from tests.agent.vms import TOKEN, FakeApi, FakeVm, serving


@pytest.mark.parametrize("model", RECORDS)
def test_a_proof_names_driver_and_gpus_as_the_api_reads_them(vm: FakeVm, model: str) -> None:
    vm.set(model=model, count=2, seed=model)
    proof = parse_proof(vm.show()["proof"])
    record = RECORDS[model]
    assert (proof.driver_version, proof.cuda_version, proof.errors, proof.xids) == ("570.124.06", "12.8", (), ())
    assert [gpu.index for gpu in proof.gpus] == [0, 1]
    assert len({gpu.uuid for gpu in proof.gpus}) == 2
    for gpu in proof.gpus:
        assert (gpu.model, gpu.memory_mib, gpu.matmul) == (record.name, record.memory_mib, Matmul.PASSED)
        assert (gpu.nvlinks, gpu.nvlinks_up) == ((record.nvlinks,) * 2 if record.nvlinks else (None, None))
        assert gpu.remap_failed is (False if record.remapping else None)
        assert gpu.recovery_action is RecoveryAction.NONE


def test_faults_of_one_gpu_show_at_that_gpu(vm: FakeVm) -> None:
    faults = {"remap_failed": True, "recovery_action": "drain_and_reset", "ecc_uncorrected": 3, "nvlinks_up": 11}
    vm.set(model="A100", count=3, gpus={"1": faults, "2": {"matmul": "failed"}})
    first, second, third = parse_proof(vm.show()["proof"]).gpus
    assert (first.remap_failed, first.ecc_uncorrected, first.nvlinks_up) == (False, 0, 12)
    assert (second.remap_failed, second.recovery_action) == (True, RecoveryAction.DRAIN_AND_RESET)
    assert (second.ecc_uncorrected, second.nvlinks_up, second.nvlinks) == (3, 11, 12)
    assert [gpu.matmul for gpu in (first, second, third)] == [Matmul.PASSED, Matmul.PASSED, Matmul.FAILED]


def test_missing_gpus_are_missing_and_lost_gpus_are_named(vm: FakeVm) -> None:
    vm.set(model="A100", count=8, visible=7, gpus={"3": {"lost": True}})
    proof = parse_proof(vm.show()["proof"])
    assert [gpu.index for gpu in proof.gpus] == [0, 1, 2, 4, 5, 6]
    assert proof.errors == (AgentError("nvml", "GPU 3: NVML returned 15", gpu=3, code=15),)
    assert proof.driver_gpus == 7


def test_each_xid_of_the_boot_is_told_once_with_its_newest_time(vm: FakeVm) -> None:
    vm.set(model="A100", count=2, xids=[79, 31, {"code": 79, "gpu": 1}, 31])
    xids = parse_proof(vm.show()["proof"]).xids
    assert [(xid.code, xid.gpu) for xid in xids] == [(79, "0000:00:10.0"), (79, "0000:00:11.0"), (31, "0000:00:10.0")]
    times = [xid.at.timestamp() for xid in xids if xid.at]
    assert times == sorted(times)
    assert len(times) == 3


@pytest.mark.parametrize(
    ("driver", "errors"),
    [
        ("not_loaded", (AgentError("nvml", "nvml: NVML returned 9", code=9),)),
        ("mismatch", (AgentError("nvml", "nvml: NVML returned 18", code=18),)),
        ("missing", ()),
    ],
)
def test_a_machine_without_a_driver_says_so(vm: FakeVm, driver: str, errors: tuple[AgentError, ...]) -> None:
    vm.set(model="A100", driver=driver)
    shown = vm.show()
    proof = parse_proof(shown["proof"])
    assert (proof.gpus, proof.errors, proof.driver_version, proof.driver_gpus) == ((), errors, None, None)
    assert shown["proof"]["source"] == "none"
    assert shown["sample"]["gpus"] == []
    assert shown["sample"]["errors"] == shown["proof"]["errors"]


def test_without_cublas_the_multiplication_is_skipped_without_a_word(vm: FakeVm) -> None:
    vm.set(model="T4", cublas=False)
    proof = parse_proof(vm.show()["proof"])
    assert (proof.gpus[0].matmul, proof.errors) == (Matmul.SKIPPED, ())


def test_an_old_driver_leaves_out_what_it_does_not_know(vm: FakeVm) -> None:
    vm.set(model="A100", recovery_action="unsupported")
    assert "recovery_action" not in vm.show()["proof"]["gpus"][0]


def test_the_proof_goes_to_the_api_and_to_the_console(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        vm.set(model="A10G", xids=[13])
        assert vm.run("proof").returncode == 0
    ((path, token, sent),) = api.requests
    assert (path, token) == ("/v1/agent/proof", f"Bearer {TOKEN}")
    assert proofs_on_console(vm.console, TOKEN) == (sent,)
    assert proofs_on_console(vm.console, "another token") == ()
    assert TOKEN not in vm.console


def test_the_console_is_left_alone_if_so_configured(vm: FakeVm) -> None:
    vm.configure(None, serial=False)
    vm.run("proof")
    assert vm.console == ""


@pytest.mark.parametrize("count", [1, 8, 16])
def test_the_console_line_fits_with_sixteen_gpus_and_keeps_what_matters(vm: FakeVm, count: int) -> None:
    vm.set(
        model="A100", count=count, gpus={"0": {"remap_failed": True}}, xids=[{"code": n, "gpu": n} for n in range(16)]
    )
    assert vm.run("proof").returncode == 0
    (line,) = [one for one in vm.console.splitlines() if one]
    assert len(line) <= LONGEST_CONSOLE_LINE
    (found,) = proofs_on_console(vm.console, TOKEN)
    proof = parse_proof(found)
    assert len({gpu.uuid for gpu in proof.gpus}) == count
    assert proof.gpus[0].remap_failed is True
    assert proof.gpus[0].matmul is Matmul.PASSED


def test_what_a_driver_prints_cannot_break_a_report(vm: FakeVm) -> None:
    vm.set(model="A100", gpus={"0": {"name": "GPU\n\x1b[31mü"}})
    (gpu,) = parse_proof(vm.show()["proof"]).gpus
    assert gpu.model == "GPU  [31mü"
    assert gpulease_agent.clean("A\n\x1b[31m" + "x" * 200) == "A  [31m" + "x" * 93


def test_the_benchmark_measures_each_gpu_and_names_its_libraries(vm: FakeVm) -> None:
    vm.set(model="A100", count=2, gpus={"1": {"rate": 0.5}})
    result = json.loads(vm.run("benchmark").stdout)
    record = RECORDS["A100"]
    assert result["libraries"] == {"cublas": "12.8.4", "nccl": "2.26.2"}
    assert (result["agent"], result["driver_version"]) == ("1.0", "570.124.06")
    assert result["allreduce_gbps"] == pytest.approx(234, rel=0.01)
    for gpu, rate in zip(result["gpus"], (1.0, 0.5), strict=True):
        assert {name: gpu[f"{name}_tflops"] for name in record.tflops} == pytest.approx(
            {name: value * rate for name, value in record.tflops.items()}, rel=0.01
        )
        assert gpu["memory_gbps"] == pytest.approx(record.memory_gbps * rate, rel=0.01)
        assert gpu["host_to_device_gbps"] == pytest.approx(record.host_gbps * rate, rel=0.01)


def test_a_gpu_without_a_data_type_has_no_figure_for_it(vm: FakeVm) -> None:
    vm.set(model="T4")
    (gpu,) = json.loads(vm.run("benchmark").stdout)["gpus"]
    assert gpu["bf16_tflops"] is None
    assert gpu["fp16_tflops"] == pytest.approx(41.0, rel=0.01)
