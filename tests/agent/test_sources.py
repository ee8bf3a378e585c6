"""Where NVML is missing: the programs of NVIDIA and AMD, from outputs in the form in which they print them."""

from pathlib import Path
from typing import Any

import pytest

from app.agent import gpulease_agent as agent
from app.domain.gpus.reports import parse_proof
from tests.agent.vms import FakeVm

OUTPUTS = Path(__file__).with_name("outputs")


def install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs before all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def gpus(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [value["gpu"] for value in values if "gpu" in value]


def test_nvidia_smi_tells_the_same_as_nvml(programs: Path) -> None:
    install(programs, "nvidia-smi", f"[ \"$*\" = '-q -x' ] && cat {OUTPUTS / 'nvidia_smi_h100.xml'}")
    values = list(agent.from_nvidia_smi())
    driver = {"vendor": "nvidia", "source": "nvidia-smi", "driver_version": "570.86.15", "cuda_version": "12.8"}
    assert values[0] == {"driver": driver | {"count": 2}}
    first, second = gpus(values)
    assert first == {
        "index": 0,
        "uuid": "GPU-1f5b2c3d-0000-4a4b-8c8d-000000000001",
        "model": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "memory_used_mib": 1,
        "utilization": 37,
        "power_w": 71.02,
        "temperature_c": 31,
        "sm_clock_mhz": 345,
        "ecc_uncorrected": 3,
        "remap_pending": True,
        "remap_failed": False,
        "recovery_action": "none",
    }
    known = {name: value for name, value in second.items() if value is not None}
    assert known.keys() == {"index", "uuid", "model", "memory_mib", "recovery_action"}
    assert known["recovery_action"] == "reboot"


def test_nvidia_smi_stands_in_for_a_missing_library(vm: FakeVm, programs: Path) -> None:
    install(programs, "nvidia-smi", f"cat {OUTPUTS / 'nvidia_smi_h100.xml'}")
    vm.set(model="H100", driver="missing")
    shown = vm.show()
    proof = parse_proof(shown["proof"])
    assert (shown["proof"]["source"], len(proof.gpus), proof.errors) == ("nvidia-smi", 2, ())
    assert shown["sample"]["gpus"][0]["utilization"] == 37


def test_amd_smi_of_both_forms(programs: Path) -> None:
    install(programs, "amd-smi", f'cat "{OUTPUTS}/amd_smi_$1.json"')
    values = list(agent.from_amd_smi())
    driver = {"vendor": "amd", "source": "amd-smi", "driver_version": "6.8.5", "cuda_version": None}
    assert values[0] == {"driver": driver | {"count": None}}
    first, second = gpus(values)
    assert first == {
        "index": 0,
        "uuid": "b9ff74a1-0000-1000-80e5-2b3c4d5e6f70",
        "model": "AMD Instinct MI300X",
        "memory_mib": 196592,
        "memory_used_mib": 283,
        "utilization": 42,
        "power_w": 139,
        "temperature_c": 41,
        "sm_clock_mhz": 132,
        "ecc_uncorrected": 2,
    }
    assert (second["uuid"], second["memory_mib"], second["utilization"]) == ("0x1A2B3C4D5E6F7081", 196288, None)


def test_rocm_smi(programs: Path) -> None:
    install(programs, "rocm-smi", f"cat {OUTPUTS / 'rocm_smi.json'}")
    values = list(agent.from_rocm_smi())
    assert values[0]["driver"]["driver_version"] == "6.8.5"
    first, second = gpus(values)
    assert (first["uuid"], first["model"]) == ("0x6d8e1a2b3c4d5e6f", "AMD Instinct MI300X")
    assert (first["memory_mib"], first["memory_used_mib"], first["utilization"]) == (196592, 283, 42)
    assert (first["power_w"], first["temperature_c"]) == (139, 41)
    assert (second["index"], second["uuid"], second["model"]) == (1, None, "AMD Instinct MI250X")
    assert (second["power_w"], second["temperature_c"]) == (95, None)


def test_gpus_of_amd_make_a_proof(vm: FakeVm, programs: Path) -> None:
    install(programs, "amd-smi", f'cat "{OUTPUTS}/amd_smi_$1.json"')
    vm.set(model="A100", driver="missing")
    proof = vm.show()["proof"]
    assert (proof["vendor"], proof["source"]) == ("amd", "amd-smi")
    assert [gpu.model for gpu in parse_proof(proof).gpus] == ["AMD Instinct MI300X"] * 2


@pytest.mark.parametrize("output", ["", "{", "[]", "[3]", "{}", "null", "3", '{"gpu_data": 3}', '{"card0": 3}'])
@pytest.mark.parametrize("name", ["amd-smi", "rocm-smi"])
def test_strange_outputs_name_no_gpu(programs: Path, name: str, output: str) -> None:
    install(programs, name, f"cat <<'END'\n{output}\nEND")
    source = {"amd-smi": agent.from_amd_smi, "rocm-smi": agent.from_rocm_smi}[name]
    assert [gpu for gpu in gpus(list(source())) if gpu["model"] is not None] == []


def test_a_source_that_fails_is_an_error_and_the_next_one_is_asked(vm: FakeVm, programs: Path) -> None:
    install(programs, "nvidia-smi", "echo '{'")
    install(programs, "amd-smi", f'cat "{OUTPUTS}/amd_smi_$1.json"')
    vm.set(model="A100", driver="missing")
    proof = parse_proof(vm.show()["proof"])
    assert len(proof.gpus) == 2
    (error,) = proof.errors
    assert (error.source, error.text[:22]) == ("nvidia-smi", "nvidia-smi: ParseError")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("4,1,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", (79, "0000:3b:00")),
        ("4,1,5000000,c,x;NVRM: Xid (PCI:0000:00:1e.0): 13, pid=12, name=python", (13, "0000:00:1e.0")),
        ("4,1,5000000,-;NVRM: loading", None),
        ("4,1,5000000,-;a program says Xid 79", None),
    ],
)
def test_xids_in_the_kernel_log(tmp_path: Path, line: str, found: tuple[int, str] | None) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text(f"6,0,1,-;first\n{line}\n continued=1\n")
    host = agent.Host(str(tmp_path))
    xids = host.xids(1_000.0)
    assert [(xid["code"], xid["gpu"], xid["at"]) for xid in xids] == ([] if found is None else [(*found, 1_005.0)])
    moved = [dict(xid, at=xid["at"] + 3600) for xid in xids]
    assert host.xids(4_600.0) == moved, "a later look keeps what it has seen, by the clock as it is known then"
