"""Which GPU classes have the memory for a workload, with how many GPUs of one VM, and with what margin."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.domain.offerings import GpuVendor, Interconnect, Offering
from app.domain.sizing.memory import Precision, Workload, memory_per_gpu
from app.domain.sizing.shapes import ModelShape

GIB = 2**30
USABLE_PERCENT = 90
"""The rest of a GPU's memory is for the driver's context and for fragmentation."""
_WITHOUT_BF16 = frozenset({"T4", "V100", "P100", "P4", "K80"})
"""GPUs older than NVIDIA's Ampere, which calculate in fp16 but not in bf16."""
_FASTEST = (Interconnect.NVSWITCH, Interconnect.NVLINK, Interconnect.INFINITY_FABRIC, Interconnect.PCIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClass:
    """GPUs of one model and memory size. `links`: the numbers in one VM, each with its fastest interconnect."""

    model: str
    memory_gib: int
    vendor: GpuVendor
    links: Mapping[int, Interconnect] = field(default_factory=dict)

    @property
    def usable_bytes(self) -> int:
        """The bytes that a workload may use."""
        return self.memory_gib * GIB * USABLE_PERCENT // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFit:
    """A number of GPUs of a class that has the memory.

    `margin_percent`: the free part of the usable memory. `interconnect`: what the GPUs need. None: there is one GPU.
    """

    gpu: GpuClass
    count: int
    margin_percent: float
    interconnect: Interconnect | None


def gpu_classes(offerings: Iterable[Offering]) -> tuple[GpuClass, ...]:
    """The classes of whole GPUs in a catalogue, by name and memory."""
    links: dict[tuple[str, int, GpuVendor], dict[int, Interconnect]] = {}
    for offering in offerings:
        gpu = offering.type.gpu
        if gpu.parts > 1 or offering.obstacle is not None:
            continue
        counts = links.setdefault((gpu.model, gpu.memory_gib, gpu.vendor), {})
        counts[gpu.count] = min(counts.get(gpu.count, gpu.interconnect), gpu.interconnect, key=_FASTEST.index)
    return tuple(
        GpuClass(model=model, memory_gib=memory, vendor=vendor, links=dict(sorted(counts.items())))
        for (model, memory, vendor), counts in sorted(links.items())
    )


def fits(shape: ModelShape, workload: Workload, gpu: GpuClass) -> Iterator[GpuFit]:
    """The numbers of GPUs of the class that have the memory, in ascending order."""
    if not supports(gpu, workload.precision):
        return
    for count in sorted(gpu.links):
        free = gpu.usable_bytes - memory_per_gpu(shape, workload, count)
        if free >= 0:
            margin = int(1000 * free / gpu.usable_bytes) / 10
            yield GpuFit(gpu=gpu, count=count, margin_percent=margin, interconnect=_needed(gpu.links[count], count))


def supports(gpu: GpuClass, precision: Precision) -> bool:
    """Whether the class calculates in this number format."""
    return precision is not Precision.BF16 or gpu.model not in _WITHOUT_BF16


def _needed(fastest: Interconnect, count: int) -> Interconnect | None:
    """NVSwitch serves a request for NVLink, and for two GPUs both are alike."""
    if count == 1:
        return None
    return Interconnect.NVLINK if fastest is Interconnect.NVSWITCH else fastest
