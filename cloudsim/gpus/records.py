"""What NVML answers for an idle GPU of each class, and what the class reaches in a benchmark.

Names, memory and idle figures are those that `nvidia-smi` prints on the cloud's machines; rates are about 0.8 of the data sheet's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """One class. `tflops`: by data type; a type that the GPU does not support is missing. `nvlinks`: 0 for none.

    `ecc`: whether volatile ECC counters are on. `remapping`: whether the class remaps rows (Ampere and newer data centre GPUs).
    """

    name: str
    memory_mib: int
    power_w: float
    temperature_c: int
    sm_clock_mhz: int
    nvlinks: int
    tflops: Mapping[str, float]
    memory_gbps: float
    host_gbps: float
    ecc: bool = True
    remapping: bool = True


RECORDS: Mapping[str, GpuRecord] = {
    "A100": GpuRecord(
        "NVIDIA A100-SXM4-40GB", 40960, 51.2, 33, 210, 12, {"bf16": 262.0, "fp16": 264.0, "fp32": 18.9}, 1320.0, 24.6
    ),
    "A100-80GB": GpuRecord(
        "NVIDIA A100-SXM4-80GB", 81920, 62.4, 32, 210, 12, {"bf16": 264.0, "fp16": 266.0, "fp32": 19.0}, 1730.0, 24.6
    ),
    "H100": GpuRecord(
        "NVIDIA H100 80GB HBM3", 81559, 71.5, 30, 345, 18, {"bf16": 760.0, "fp16": 742.0, "fp32": 51.0}, 2880.0, 55.1
    ),
    "H200": GpuRecord(
        "NVIDIA H200", 143771, 76.1, 29, 345, 18, {"bf16": 765.0, "fp16": 748.0, "fp32": 51.5}, 4120.0, 55.3
    ),
    "A10G": GpuRecord("NVIDIA A10G", 23028, 16.3, 27, 210, 0, {"bf16": 66.0, "fp16": 66.5, "fp32": 22.1}, 497.0, 23.8),
    "T4": GpuRecord("Tesla T4", 15360, 9.6, 30, 300, 0, {"fp16": 41.0, "fp32": 6.4}, 239.0, 12.3, remapping=False),
    "L4": GpuRecord("NVIDIA L4", 23034, 11.8, 34, 210, 0, {"bf16": 78.0, "fp16": 78.5, "fp32": 17.6}, 258.0, 24.1),
    "V100": GpuRecord(
        "Tesla V100-SXM2-16GB", 16384, 24.1, 35, 135, 6, {"fp16": 91.0, "fp32": 14.2}, 790.0, 12.2, remapping=False
    ),
}
