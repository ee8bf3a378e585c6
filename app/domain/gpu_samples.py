"""Samples that the agent of a VM takes: what they may hold, and what they say about the lease as a whole.

Root of the VM may send anything. A value out of its range is refused with the name of its field.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 16 * 1024
"""Of a request of the agent."""
MOST_GPUS = 64
MOST_XIDS = 64
MOST_SAMPLES = 10
"""In one request: samples that could not be sent before, the newest last."""
FUTURE_SECONDS = 30.0
"""A clock of a VM may be so much ahead."""
OLDEST_SECONDS = 900.0
"""Older samples are refused: an hour is summed up so long after its end."""
LEAST_INTERVAL_SECONDS = 10.0
"""Between two requests with samples of one VM."""

VERSION = 1
RECOVERY_ACTIONS = frozenset({"none", "reset", "reboot", "drain_p2p", "drain_and_reset", "unknown"})

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/ -]{0,99}")
_REQUEST = frozenset({"version", "agent", "boot_id", "samples", "xids", "benchmark"})
_SAMPLE = frozenset({"at", "gpus", "cpu_percent", "memory_percent", "disk_percent"})
_XID = frozenset({"code", "gpu", "at"})
_PERCENT = 100
_LIMITS: Mapping[str, tuple[float, float]] = {
    "utilization": (0, _PERCENT),
    "memory_used_mib": (0, 16_777_216),
    "memory_mib": (0, 16_777_216),
    "power_w": (0, 10_000),
    "temperature_c": (-100, 300),
    "sm_clock_mhz": (0, 30_000),
    "ecc_uncorrected": (0, 2**53),
    "throttle": (0, 2**53),
}
_GPU = frozenset({"uuid", "remap_failed", "recovery_action", *_LIMITS})
_LATEST_TIME = 4_102_444_800
_LARGEST_XID = 10_000


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
    ecc_uncorrected: float | None = None
    throttle: float | None = None
    remap_failed: bool | None = None
    recovery_action: str | None = None

    @property
    def memory_percent(self) -> float | None:
        """Used memory."""
        if self.memory_used_mib is None or not self.memory_mib:
            return None
        return min(_PERCENT * self.memory_used_mib / self.memory_mib, _PERCENT)


@dataclass(frozen=True, slots=True)
class Sample:
    """A VM at one moment. `at`: seconds since 1970 by its clock. The last three are those of the host."""

    at: float
    gpus: tuple[GpuSample, ...]
    cpu_percent: float | None = None
    memory_percent: float | None = None
    disk_percent: float | None = None

    @property
    def gpu_percent(self) -> float | None:
        """The mean utilization of its GPUs; None when one of them is unknown."""
        return _mean(gpu.utilization for gpu in self.gpus)

    @property
    def busiest_percent(self) -> float | None:
        """The utilization of the busiest GPU; None when one of them is unknown, or there is none."""
        values = [gpu.utilization for gpu in self.gpus]
        return None if not values or None in values else max(value for value in values if value is not None)

    def lease_values(self) -> tuple[int | None, ...]:
        """Whole numbers in the order of LEASE_SERIES. Power is the sum of the GPUs, the others are their means."""
        gpus = self.gpus
        power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
        return (
            _whole(self.gpu_percent),
            _whole(_mean(gpu.memory_percent for gpu in gpus)),
            _whole(sum(power)) if power and len(power) == len(gpus) else None,
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
"""Series of a lease."""
GPU_SERIES = ("gpu_percent", "memory_percent", "temperature_c", "power_w")
"""Series of each GPU."""
_LARGEST = 32_767
"""A stored value."""


@dataclass(frozen=True, slots=True)
class SampleReport:
    """A request of an agent. `samples`: in the order of their times. `xids` and `benchmark` as the agent sent them."""

    agent: str
    boot_id: str | None
    samples: tuple[Sample, ...]
    xids: tuple[Mapping[str, Any], ...]
    benchmark: Mapping[str, Any] | None


def parse_samples(value: Any, now: float) -> SampleReport:
    """Reads the JSON of a request that arrives at `now`. Raises ValueError, whose text begins with the field's name."""
    _check_fields(value, _REQUEST, "the body")
    if value.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}")
    samples = tuple(_sample(each, now, f"samples[{n}]") for n, each in enumerate(_list(value, "samples", MOST_SAMPLES)))
    if not samples:
        raise ValueError("samples must have an item")
    if any(later.at <= sample.at for sample, later in zip(samples, samples[1:], strict=False)):
        raise ValueError("samples must be in the order of their times, without a repeated time")
    xids = value.get("xids") or []
    if not isinstance(xids, list) or len(xids) > MOST_XIDS:
        raise ValueError(f"xids must be a list of at most {MOST_XIDS}")
    for n, xid in enumerate(xids):
        _check_xid(xid, f"xids[{n}]")
    benchmark = value.get("benchmark")
    if benchmark is not None and not isinstance(benchmark, dict):
        raise ValueError("benchmark must be an object or null")
    boot_id = value.get("boot_id")
    return SampleReport(
        agent=_text(value.get("agent"), "agent"),
        boot_id=None if boot_id is None else _text(boot_id, "boot_id"),
        samples=samples,
        xids=tuple(xids),
        benchmark=benchmark,
    )


def _sample(value: Any, now: float, name: str) -> Sample:
    _check_fields(value, _SAMPLE, name)
    at = _number(value.get("at"), 0, _LATEST_TIME, name, "at")
    if at is None:
        raise ValueError(f"{name}.at is missing")
    if at > now + FUTURE_SECONDS:
        raise ValueError(f"{name}.at is more than {FUTURE_SECONDS:.0f} seconds in the future")
    if at < now - OLDEST_SECONDS:
        raise ValueError(f"{name}.at is more than {OLDEST_SECONDS:.0f} seconds old")
    gpus = tuple(_gpu(each, f"{name}.gpus[{n}]") for n, each in enumerate(_list(value, "gpus", MOST_GPUS, name)))
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise ValueError(f"{name}.gpus must have a uuid of its own each")
    return Sample(
        at,
        gpus,
        *(
            _number(value.get(field), 0, _PERCENT, name, field)
            for field in ("cpu_percent", "memory_percent", "disk_percent")
        ),
    )


def _gpu(value: Any, name: str) -> GpuSample:
    _check_fields(value, _GPU, name)
    numbers = {
        field: _number(value.get(field), least, most, name, field) for field, (least, most) in _LIMITS.items()
    }
    failed, action = value.get("remap_failed"), value.get("recovery_action")
    if failed is not None and not isinstance(failed, bool):
        raise ValueError(f"{name}.remap_failed must be true, false or null")
    if action is not None and (not isinstance(action, str) or action not in RECOVERY_ACTIONS):
        raise ValueError(f"{name}.recovery_action must be one of {', '.join(sorted(RECOVERY_ACTIONS))}")
    return GpuSample(
        uuid=_text(value.get("uuid"), f"{name}.uuid"), remap_failed=failed, recovery_action=action, **numbers
    )


def _check_xid(value: Any, name: str) -> None:
    _check_fields(value, _XID, name)
    code = value.get("code")
    if type(code) is not int or not 0 <= code <= _LARGEST_XID:
        raise ValueError(f"{name}.code must be a whole number from 0 to {_LARGEST_XID}")
    if value.get("gpu") is not None:
        _text(value["gpu"], f"{name}.gpu")
    _number(value.get("at"), 0, _LATEST_TIME, name, "at")


def _check_fields(value: Any, known: frozenset[str], name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")  # noqa: TRY004 - callers expect ValueError alone
    if not value.keys() <= known:
        unknown = sorted(value.keys() - known)[0]
        raise ValueError(f"{name} has the unknown field {unknown[:40]!r}")


def _list(value: Mapping[str, Any], field: str, most: int, name: str = "") -> list[Any]:
    items = value.get(field)
    if not isinstance(items, list) or len(items) > most:
        raise ValueError(f"{name}{'.' if name else ''}{field} must be a list of at most {most}")
    return items


def _number(value: Any, least: float, most: float, name: str, field: str) -> float | None:
    """NaN and infinite numbers are in no range."""
    if value is None:
        return None
    kind = type(value)
    if (kind is int or kind is float) and least <= value <= most:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"{name}.{field} must be a number from {least} to {most}, or null")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise ValueError(f"{name} must be 1 to 100 ASCII letters, digits and . _ : / - or spaces")
    return value


def _mean(values: Iterable[float | None]) -> float | None:
    known: list[float] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return sum(known) / len(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else min(round(value), _LARGEST)
