"""Samples that the agent of a VM takes: parsed strictly, and what they say about the lease as a whole.

Nothing of a sample is trusted. A value out of its range is refused with the name of its field.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from app.domain.gpu_reports import LONGEST_TEXT, MOST_GPUS, PROOF_VERSION, RecoveryAction, Xid, parse_xids
from app.domain.report_values import Reader, check_keys

MOST_SAMPLES = 10
"""In one request: samples that could not be sent before, the newest last."""
FUTURE = timedelta(seconds=30)
"""A VM's clock may be ahead by this much."""
OLDEST = timedelta(minutes=15)
"""Older samples are refused: an hour is summed up so long after its end."""
LEAST_STEP = 0.5
"""Sample periods: between two requests of one VM, and between two samples that are stored."""

LEASE_SERIES = (
    "gpu_percent",
    "memory_percent",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "cpu_percent",
    "host_memory_percent",
    "disk_percent",
)
"""Series of a lease, as they are stored."""
GPU_SERIES = ("gpu_percent", "memory_percent", "temperature_c", "power_w")
"""Series of each GPU, as they are stored."""
_LARGEST = 32_767
"""A stored value."""
_PERCENT = 100
_MOST_MIB = 16_777_216
_MOST_COUNT = 2**53


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment. None: the driver does not report it."""

    uuid: str
    utilization: float | None = None
    memory_used_mib: float | None = None
    memory_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    ecc_uncorrected: int | None = None
    throttle: int | None = None
    remap_failed: bool | None = None
    recovery_action: RecoveryAction | None = None

    @property
    def memory_percent(self) -> float | None:
        """Used memory."""
        if self.memory_used_mib is None or not self.memory_mib:
            return None
        return min(_PERCENT * self.memory_used_mib / self.memory_mib, _PERCENT)


@dataclass(frozen=True, slots=True)
class Sample:
    """A VM at one moment of its clock. The last three are those of the host."""

    at: datetime
    gpus: tuple[GpuSample, ...]
    cpu_percent: float | None = None
    memory_percent: float | None = None
    disk_percent: float | None = None

    def only(self, uuids: Collection[str]) -> "Sample":
        """Without any other GPUs."""
        return replace(self, gpus=tuple(gpu for gpu in self.gpus if gpu.uuid in uuids))

    @property
    def percentages(self) -> list[float | None]:
        """The utilization of each GPU."""
        return [gpu.utilization for gpu in self.gpus]

    @property
    def busiest_percent(self) -> int | None:
        """The utilization of the busiest GPU; None when one of them is unknown, or there is none."""
        values = self.percentages
        return None if not values or None in values else _whole(max(value for value in values if value is not None))

    def lease_values(self) -> tuple[int | None, ...]:
        """Whole numbers in the order of LEASE_SERIES. Power is the sum of the GPUs, the others are their means.

        What one GPU does not report is unknown for the lease.
        """
        gpus = self.gpus
        power = _mean(gpu.power_w for gpu in gpus)
        return (
            _whole(_mean(gpu.utilization for gpu in gpus)),
            _whole(_mean(gpu.memory_percent for gpu in gpus)),
            _whole(None if power is None else power * len(gpus)),
            _whole(_mean(gpu.temperature_c for gpu in gpus)),
            _whole(_mean(gpu.sm_clock_mhz for gpu in gpus)),
            _whole(self.cpu_percent),
            _whole(self.memory_percent),
            _whole(self.disk_percent),
        )

    def gpu_values(self) -> tuple[tuple[int | None, ...], ...]:
        """For each of GPU_SERIES a whole number for each GPU."""
        return (
            tuple(_whole(gpu.utilization) for gpu in self.gpus),
            tuple(_whole(gpu.memory_percent) for gpu in self.gpus),
            tuple(_whole(gpu.temperature_c) for gpu in self.gpus),
            tuple(_whole(gpu.power_w) for gpu in self.gpus),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """A request of an agent. `samples`: one or more, in the order of their times. `xids`: since the VM booted."""

    agent: str
    boot_id: str | None
    samples: tuple[Sample, ...]
    xids: tuple[Xid, ...] = ()
    benchmark: Mapping[str, Any] | None = None
    """Not parsed here."""

    @property
    def uuids(self) -> list[str]:
        """Of all GPUs in its samples, each once."""
        return list(dict.fromkeys(gpu.uuid for sample in self.samples for gpu in sample.gpus))

    def check_times(self, now: datetime) -> None:
        """Raises ValueError, as `parse_samples`, for a sample that is too old or too far ahead of the database's clock."""
        if self.samples[-1].at > now + FUTURE:
            problem = f"must be at most {FUTURE.seconds} seconds in the future; set the VM's clock"
            raise ValueError(f"body.samples.at {problem}")
        if self.samples[0].at < now - OLDEST:
            raise ValueError(f"body.samples.at must be at most {OLDEST.seconds} seconds old")


def parse_samples(value: Any) -> SampleReport:
    """Reads the JSON of a request. Raises ValueError, whose text begins with the field's name."""
    report = Reader(value, "body")
    check_keys(value, _REPORT_KEYS, "body")
    if report.integer("version", 1, 1_000_000, required=True) != PROOF_VERSION:
        raise ValueError(f"body.version must be {PROOF_VERSION}")
    agent = report.text("agent", LONGEST_TEXT, required=True)
    assert agent is not None
    samples = tuple(_sample(each) for each in report.objects("samples", MOST_SAMPLES, required=True))
    if not samples:
        raise ValueError("body.samples must have an entry")
    if any(later.at <= sample.at for sample, later in pairwise(samples)):
        raise ValueError("body.samples must be in the order of their times, each with a time of its own")
    return SampleReport(
        agent=agent,
        boot_id=report.text("boot_id", LONGEST_TEXT),
        samples=samples,
        xids=parse_xids(report),
        benchmark=report.mapping("benchmark"),
    )


_REPORT_KEYS = frozenset({"version", "agent", "boot_id", "samples", "xids", "benchmark"})


def _sample(report: Reader) -> Sample:
    at = report.time("at", required=True)
    assert at is not None
    gpus = tuple(_gpu(each) for each in report.objects("gpus", MOST_GPUS, required=True))
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise ValueError("body.samples.gpus must have a uuid of its own each")
    return Sample(
        at,
        gpus,
        report.number("cpu_percent", 0, _PERCENT),
        report.number("memory_percent", 0, _PERCENT),
        report.number("disk_percent", 0, _PERCENT),
    )


def _gpu(report: Reader) -> GpuSample:
    uuid = report.text("uuid", LONGEST_TEXT, required=True)
    assert uuid is not None
    return GpuSample(
        uuid,
        report.number("utilization", 0, _PERCENT),
        report.number("memory_used_mib", 0, _MOST_MIB),
        report.number("memory_mib", 0, _MOST_MIB),
        report.number("power_w", 0, 10_000),
        report.number("temperature_c", -100, 300),
        report.number("sm_clock_mhz", 0, 30_000),
        report.integer("ecc_uncorrected", 0, _MOST_COUNT),
        report.integer("throttle", 0, _MOST_COUNT),
        report.flag("remap_failed"),
        report.choice("recovery_action", RecoveryAction),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """None when one of them is unknown, or there is none."""
    known: list[float] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return sum(known) / len(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else min(round(value), _LARGEST)
