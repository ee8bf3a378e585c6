"""Samples that the agent of a VM takes: parsed strictly, and what they say about the lease as a whole.

Nothing of a sample is trusted. What is malformed is refused with the name of its field. What an agent cannot help is
left out alone: a driver's impossible value, and a sample whose time cannot be true.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from app.domain.gpus.report_values import Reader, check_keys
from app.domain.gpus.reports import (
    FUTURE,
    LONGEST_TEXT,
    MOST_COUNT,
    MOST_DRIVER_GPUS,
    MOST_GPUS,
    MOST_MIB,
    PROOF_VERSION,
    AgentError,
    RecoveryAction,
    Xid,
    parse_errors,
    parse_xids,
    timely_xids,
)

MOST_SAMPLES = 10
"""In one request: samples that could not be sent before, the newest last."""
OLDEST = timedelta(minutes=15)
"""Older samples are not stored: an hour is summed up so long after its end."""
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


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment. None: the driver does not report it. `impossible`: members whose values cannot be true."""

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
    impossible: tuple[str, ...] = ()

    @property
    def memory_percent(self) -> float | None:
        """Used memory."""
        if self.memory_used_mib is None or not self.memory_mib:
            return None
        return min(_PERCENT * self.memory_used_mib / self.memory_mib, _PERCENT)


@dataclass(frozen=True, slots=True)
class Sample:
    """A VM at one moment. The percentages are those of the host. `driver_gpus`: how many GPUs the driver names."""

    at: datetime
    gpus: tuple[GpuSample, ...]
    cpu_percent: float | None = None
    memory_percent: float | None = None
    disk_percent: float | None = None
    driver_gpus: int | None = None
    errors: tuple[AgentError, ...] = ()

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
    """A request of an agent. `samples`: one or more, in the order in which they were taken. `xids`: since the VM booted.

    `left_out`: samples and values that were not taken.
    """

    agent: str
    boot_id: str | None
    samples: tuple[Sample, ...]
    left_out: int = 0
    xids: tuple[Xid, ...] = ()
    benchmark: Mapping[str, Any] | None = None
    """Not parsed here."""

    @property
    def uuids(self) -> list[str]:
        """Of all GPUs in its samples, each once."""
        return list(dict.fromkeys(gpu.uuid for sample in self.samples for gpu in sample.gpus))

    def timely(self, now: datetime) -> "SampleReport":
        """With times that can be true. `now`: of its arrival, by the database's clock.

        An agent sends a sample as soon as it has taken it, so the newest one shows the VM's clock. Where that cannot be
        right, times count from the arrival. An older sample that is not before its successor was taken by another clock.
        """
        newest = self.samples[-1].at
        ahead = timedelta() if now - OLDEST <= newest <= now + FUTURE else newest - now
        samples: list[Sample] = []
        for sample in reversed(self.samples):
            at = sample.at - ahead
            if at >= now - OLDEST and (not samples or at < samples[-1].at):
                samples.append(replace(sample, at=at))
        return replace(
            self,
            samples=tuple(reversed(samples)),
            left_out=self.left_out + len(self.samples) - len(samples),
            xids=timely_xids(self.xids, now, ahead),
        )


def parse_samples(value: Any) -> SampleReport:
    """Reads the JSON of a request. Raises ValueError, whose text begins with the field's name."""
    report = Reader(value, "body")
    check_keys(value, _REPORT_KEYS, "body")
    if report.integer("version", 1, 1_000_000, required=True) != PROOF_VERSION:
        raise ValueError(f"body.version must be {PROOF_VERSION}")
    agent = report.text("agent", LONGEST_TEXT, required=True)
    assert agent is not None
    readers = report.objects("samples", MOST_SAMPLES, required=True)
    if not readers:
        raise ValueError("body.samples must have an entry")
    sent = tuple(_sample(each) for each in readers)
    impossible = sum(len(reader.impossible) for reader in readers)
    impossible += sum(len(gpu.impossible) for sample in sent for gpu in sample.gpus)
    return SampleReport(
        agent=agent,
        boot_id=report.text("boot_id", LONGEST_TEXT),
        samples=sent,
        left_out=impossible,
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
        report.measured("cpu_percent", 0, _PERCENT),
        report.measured("memory_percent", 0, _PERCENT),
        report.measured("disk_percent", 0, _PERCENT),
        report.counted("driver_gpus", 0, MOST_DRIVER_GPUS),
        parse_errors(report),
    )


def _gpu(report: Reader) -> GpuSample:
    uuid = report.text("uuid", LONGEST_TEXT, required=True)
    assert uuid is not None
    return GpuSample(
        uuid,
        report.measured("utilization", 0, _PERCENT),
        report.measured("memory_used_mib", 0, MOST_MIB),
        report.measured("memory_mib", 0, MOST_MIB),
        report.measured("power_w", 0, 10_000),
        report.measured("temperature_c", -100, 300),
        report.measured("sm_clock_mhz", 0, 30_000),
        report.counted("ecc_uncorrected", 0, MOST_COUNT),
        report.counted("throttle", 0, MOST_COUNT),
        report.flag("remap_failed"),
        report.choice("recovery_action", RecoveryAction),
        report.impossible,
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
