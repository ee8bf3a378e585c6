"""The GPUs of a simulated VM as its driver reports them: facts of the type, its condition, and a load over time. Pure."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cloudsim.gpus.records import RECORDS
from cloudsim.world import Gpu, GpuCondition

AMD = "AMD"
DRIVER_VERSION, CUDA_VERSION = "580.95.05", "13.0"
_DRIVER_MIB = 4
_IDLE_CELSIUS, _CELSIUS_PER_PERCENT = 31, 0.42


class _Model(NamedTuple):
    """`part`: of the type's own name. `most_mib`: the model of types with so much memory at most.

    `record`: the class in `records`; `name` and `memory_mib`: where the driver reports others. `watts` and `mhz`: at full load.
    """

    part: str
    most_mib: int
    record: str
    watts: int
    mhz: int
    name: str | None = None
    memory_mib: int | None = None


_MODELS = (
    _Model("A100", 40_960, "A100", 400, 1_410),
    _Model("A100", 81_920, "A100-80GB", 400, 1_410),
    _Model("H100", 81_920, "H100", 700, 1_980),
    _Model("H100", 96_256, "H100", 400, 1_785, "NVIDIA H100 NVL", 95_830),
    _Model("H200", 144_384, "H200", 700, 1_980),
    _Model("B200", 184_320, "H200", 1_000, 1_965, "NVIDIA B200", 183_359),
    _Model("B300", 274_432, "H200", 1_100, 1_920, "NVIDIA B300", 275_040),
    _Model("A10G", 24_576, "A10G", 300, 1_710),
    _Model("A10", 4_096, "A10G", 150, 1_695, "NVIDIA A10-4Q", 4_096),
    _Model("A10", 24_576, "A10G", 150, 1_695, "NVIDIA A10", 23_028),
    _Model("L40S", 49_152, "L4", 350, 2_520, "NVIDIA L40S", 46_068),
    _Model("L4", 3_072, "L4", 72, 2_040, "NVIDIA L4-3Q", 3_072),
    _Model("L4", 24_576, "L4", 72, 2_040),
    _Model("T4", 16_384, "T4", 70, 1_590),
    _Model("V100", 16_384, "V100", 300, 1_530),
    _Model("RTX PRO 4500", 32_768, "L4", 200, 2_407, "NVIDIA RTX PRO 4500 Blackwell", 32_623),
    _Model("RTX PRO Server 6000", 98_304, "L4", 600, 2_430, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887),
    _Model("RTX PRO 6000", 24_576, "L4", 600, 2_430, "NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", 24_576),
    _Model("RTX PRO 6000", 49_152, "L4", 600, 2_430, "NVIDIA RTX Pro 6000 Blackwell DC-2-48Q", 49_152),
    _Model("RTX PRO 6000", 98_304, "L4", 600, 2_430, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887),
    _Model("MI300X", 196_608, "H200", 750, 2_100, "AMD Instinct MI300X", 196_592),
)
"""What NVML (for the last one, amd-smi) calls the GPUs of the catalogues, and how much memory it reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU at one moment. `record`: its class in `records`. `nvlinks`: links that are up; all of them are."""

    index: int
    record: str
    uuid: str
    model: str
    memory_mib: int
    remap_failed: bool
    recovery_action: str
    nvlinks: int
    utilization: int
    memory_used_mib: int
    power_w: float
    temperature_c: int
    sm_clock_mhz: int


def devices(vm_id: str, gpu: Gpu, condition: GpuCondition, seconds: float) -> list[Device]:
    """The GPUs that the driver of a VM shows, `seconds` after the VM's launch."""
    model = _model(gpu)
    count = gpu.count if condition.visible is None else min(condition.visible, gpu.count)
    return [_device(vm_id, index, gpu.count, model, condition, seconds) for index in range(count)]


def _model(gpu: Gpu) -> _Model:
    words = f" {gpu.name.replace('-', ' ')} ".upper()
    for model in _MODELS:
        if f" {model.part} ".upper() in words and gpu.memory_mib <= model.most_mib:
            return model
    return _Model(gpu.name, gpu.memory_mib, "L4", 300, 1_500, f"{gpu.manufacturer} {gpu.name}", gpu.memory_mib)


def _device(vm_id: str, index: int, count: int, model: _Model, condition: GpuCondition, seconds: float) -> Device:
    load = utilization(vm_id, index, seconds) if condition.utilization is None else condition.utilization
    record = RECORDS[model.record]
    memory_mib = model.memory_mib or record.memory_mib
    used = 0.0 if load == 0 else 0.25 + 0.6 * _share(vm_id, index)
    return Device(
        index=index,
        uuid=uuid(vm_id, index),
        record=model.record,
        model=condition.model or model.name or record.name,
        memory_mib=memory_mib,
        remap_failed=condition.remap_failed and index == 0,
        recovery_action=str(condition.recovery_action) if index == 0 else "none",
        nvlinks=record.nvlinks if count > 1 else 0,
        utilization=load,
        memory_used_mib=_DRIVER_MIB + int(memory_mib * used),
        power_w=round(model.watts * (0.13 + 0.0083 * load), 1),
        temperature_c=int(_IDLE_CELSIUS + _CELSIUS_PER_PERCENT * load),
        sm_clock_mhz=model.mhz if load else record.sm_clock_mhz,
    )


def uuid(vm_id: str, index: int) -> str:
    """Every VM has GPUs of its own."""
    return f"GPU-{UUID(bytes=_digest(vm_id, f'gpu {index}')[:16])}"


def utilization(vm_id: str, index: int, seconds: float) -> int:
    """Percent under a believable load: training, inference or experiments, as drawn from the VM's id. Never idle.

    Training is steady and dips for checkpoints, inference goes up and down within the hour, experiments come in bursts.
    """
    kind = _digest(vm_id, "load")[0] % 3
    phase = 2 * math.pi * _share(vm_id, -1)
    noise = 6 * math.sin(seconds / 7 + 1.7 * index + phase) * math.sin(seconds / 23 + index)
    if kind == 0:
        level = 38.0 if (seconds + 60 * phase) % 900 < 45 else 93.0
    elif kind == 1:
        level = 55 + 25 * math.sin(2 * math.pi * seconds / 3_600 + phase)
    else:
        level = 82.0 if math.sin(2 * math.pi * seconds / 1_100 + phase) > -0.2 else 21.0
    return max(10, min(100, round(level + noise)))


def _share(vm_id: str, index: int) -> float:
    return _digest(vm_id, f"share {index}")[0] / 255


def _digest(vm_id: str, what: str) -> bytes:
    return hashlib.sha256(f"{vm_id} {what}".encode()).digest()
