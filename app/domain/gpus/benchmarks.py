"""What an agent measured of a VM's GPUs, parsed strictly, and what offerings show of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from app.domain.gpus.report_values import Reader, check_keys

_MOST_GPUS = 64
_MOST_LIBRARIES = 8
_LONGEST_TEXT = 100
_MOST_TFLOPS = 100_000.0
_MOST_GBPS = 1_000_000.0
_MOST_SECONDS = 3600.0
"""Bounds that no GPU of today comes near: a larger number is a mistake."""


_PEAK_TFLOPS: Mapping[str, float] = MappingProxyType(
    {
        "V100": 125,
        "T4": 65,
        "A10": 125,
        "A10G": 125,
        "A100": 312,
        "L4": 121,
        "L40S": 362,
        "RTX PRO 6000": 504,
        "H100": 989,
        "H200": 989,
        "B200": 2250,
        "B300": 2250,
        "MI300X": 1307,
    }
)
"""The most that a GPU can do in 16-bit matrix multiplication, dense, in TFLOP/s. Source: data sheets of NVIDIA and AMD."""
_ABOVE_PEAK = 1.1
"""Clocks may exceed those of the data sheet by this factor."""

REPORTS_NEEDED = 3
"""Reports from which a set of versions may take the place of another one, if two tenants have sent them."""


def is_possible(benchmark: "Benchmark", model: str) -> bool:
    """Whether a GPU of this model can have done it. A model without a data sheet here is held to the fastest one's."""
    most = _PEAK_TFLOPS.get(model, max(_PEAK_TFLOPS.values())) * _ABOVE_PEAK
    return all((gpu.bf16_tflops or 0) <= most for gpu in benchmark.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredGpu:
    """One GPU: TFLOP/s of matrix multiplication, and GB/s of copies. None: not measured."""

    uuid: str
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp32_tflops: float | None = None
    memory_gbps: float | None = None
    host_to_device_gbps: float | None = None
    device_to_host_gbps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One measurement of all GPUs of a VM. `libraries`: versions by name. `seconds`: how long it took."""

    agent: str
    gpus: tuple[MeasuredGpu, ...]
    driver_version: str | None = None
    libraries: Mapping[str, str | None] = field(default_factory=dict)
    allreduce_gbps: float | None = None
    seconds: float | None = None

    def slowest(self, quantity: str) -> float | None:
        """The smallest value of a quantity among the GPUs. None: not measured."""
        values = [value for gpu in self.gpus if (value := getattr(gpu, quantity)) is not None]
        return min(values, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPerformance:
    """What an instance type of a provider was measured to do, with one set of versions.

    `bf16_tflops_p50`: in TFLOP/s of one GPU, the median of tenants, of each of which the median of its GPUs counts. `n`:
    GPUs of all tenants.
    """

    bf16_tflops_p50: float
    n: int
    driver_version: str | None


def parse_benchmark(value: Any, name: str = "benchmark") -> Benchmark:
    """A benchmark from its JSON. Raises ValueError naming the field, below `name`."""
    report = Reader(value, name)
    check_keys(value, _KEYS, name)
    agent = report.text("agent", _LONGEST_TEXT, required=True)
    assert agent is not None
    gpus = tuple(_gpu(entry) for entry in report.objects("gpus", _MOST_GPUS, required=True))
    if not gpus:
        raise ValueError(f"{name}.gpus must name at least one GPU")
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise ValueError(f"{name}.gpus must name each uuid once")
    return Benchmark(
        agent=agent,
        driver_version=report.text("driver_version", _LONGEST_TEXT),
        libraries=_libraries(report.mapping("libraries") or {}, f"{name}.libraries"),
        gpus=gpus,
        allreduce_gbps=report.measured("allreduce_gbps", 0, _MOST_GBPS),
        seconds=report.number("seconds", 0, _MOST_SECONDS),
    )


_KEYS = frozenset({"agent", "driver_version", "libraries", "gpus", "allreduce_gbps", "seconds"})


def _libraries(value: Mapping[str, Any], name: str) -> dict[str, str | None]:
    if len(value) > _MOST_LIBRARIES:
        raise ValueError(f"{name} must have at most {_MOST_LIBRARIES} members")
    if any(len(key) > _LONGEST_TEXT or not key.isprintable() for key in value):
        raise ValueError(f"{name} must have printable names of at most {_LONGEST_TEXT} characters")
    report = Reader(value, name)
    return {key: report.text(key, _LONGEST_TEXT) for key in sorted(value)}


def _gpu(report: Reader) -> MeasuredGpu:
    uuid = report.text("uuid", _LONGEST_TEXT, required=True)
    assert uuid is not None
    return MeasuredGpu(
        uuid=uuid,
        bf16_tflops=report.measured("bf16_tflops", 0, _MOST_TFLOPS),
        fp16_tflops=report.measured("fp16_tflops", 0, _MOST_TFLOPS),
        fp32_tflops=report.measured("fp32_tflops", 0, _MOST_TFLOPS),
        memory_gbps=report.measured("memory_gbps", 0, _MOST_GBPS),
        host_to_device_gbps=report.measured("host_to_device_gbps", 0, _MOST_GBPS),
        device_to_host_gbps=report.measured("device_to_host_gbps", 0, _MOST_GBPS),
    )
