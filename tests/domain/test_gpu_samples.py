"""Samples of agents: strict, so that root of a VM stores nothing else."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.gpu_reports import MOST_GPUS
from app.domain.gpu_samples import LEASE_SERIES, Sample, SampleReport, parse_samples

NOW = 1_790_000_000.0
ARRIVED = datetime.fromtimestamp(NOW, UTC)


def gpu(**changes: Any) -> dict[str, Any]:
    return {
        "uuid": "GPU-11111111-2222-3333-4444-555555555555",
        "utilization": 40,
        "memory_used_mib": 1024,
        "memory_mib": 40960,
        "power_w": 51.2,
        "temperature_c": 33,
        "sm_clock_mhz": 210,
        "ecc_uncorrected": 0,
        "remap_failed": False,
        "recovery_action": "none",
        "throttle": 1,
        **changes,
    }


def sample(**changes: Any) -> dict[str, Any]:
    return {
        "at": NOW,
        "gpus": [gpu()],
        "cpu_percent": 1.5,
        "memory_percent": 7.0,
        "disk_percent": 12.0,
        **changes,
    }


def report(*samples: Any, **changes: Any) -> dict[str, Any]:
    return {"version": 1, "agent": "1.0", "boot_id": "b", "samples": list(samples) or [sample()], "xids": [], **changes}


def parsed(value: Any) -> Sample:
    return arrived(value).samples[-1]


def arrived(value: Any) -> SampleReport:
    found = parse_samples(value)
    found.check_times(ARRIVED)
    return found


def test_a_sample_becomes_whole_numbers_of_the_lease_and_of_each_gpu() -> None:
    two = parsed(report(sample(gpus=[gpu(), gpu(uuid="GPU-b", utilization=61, power_w=100)])))
    assert dict(zip(LEASE_SERIES, two.lease_values(), strict=True)) == {
        "gpu_percent": 50,
        "memory_percent": 2,
        "power_w": 151,
        "temperature_c": 33,
        "sm_clock_mhz": 210,
        "cpu_percent": 2,
        "host_memory_percent": 7,
        "disk_percent": 12,
    }
    assert two.gpu_values() == ((40, 61), (2, 2), (33, 33), (51, 100))
    assert two.busiest_percent == 61


def test_what_one_gpu_does_not_report_is_unknown_for_the_lease() -> None:
    two = parsed(report(sample(gpus=[gpu(), gpu(uuid="GPU-b", utilization=None, power_w=None)])))
    assert two.busiest_percent is None
    assert two.lease_values()[:3] == (None, 2, None)
    assert two.gpu_values()[0] == (40, None)


def test_a_vm_without_gpus_has_a_sample_without_load() -> None:
    none = parsed(report(sample(gpus=[])))
    assert none.busiest_percent is None
    assert none.lease_values()[:5] == (None,) * 5


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "body"),
        (report(version=2), "body.version"),
        (report(agent=None), "body.agent"),
        (report(agent="x" * 101), "body.agent"),
        (report(boot_id="\x00"), "body.boot_id"),
        (report(**{f"more_{n}": 1 for n in range(17)}), "unknown members"),
        (report(samples=[]), "body.samples"),
        (report(samples=None), "body.samples"),
        (report(*[sample(at=NOW + n) for n in range(11)]), "body.samples"),
        (report(sample(), sample()), "body.samples"),
        (report(sample(at=NOW), sample(at=NOW - 60)), "body.samples"),
        (report(sample(at=None)), "body.samples[0].at"),
        (report(sample(at="now")), "body.samples[0].at"),
        (report(sample(at=True)), "body.samples[0].at"),
        (report(sample(at=NOW + 31)), "body.samples.at"),
        (report(sample(at=NOW - 901)), "body.samples.at"),
        (report(sample(gpus=[gpu(uuid=f"GPU-{n}") for n in range(MOST_GPUS + 1)])), "body.samples[0].gpus"),
        (report(sample(gpus=[gpu(uuid=f"GPU-{n}") for n in range(10_000)])), "body.samples[0].gpus"),
        (report(sample(gpus=[gpu(), gpu()])), "body.samples.gpus"),
        (report(sample(gpus=[gpu(uuid="x" * 101)])), "body.samples[0].gpus[0].uuid"),
        (report(sample(gpus=[gpu(utilization=101)])), "body.samples[0].gpus[0].utilization"),
        (report(sample(gpus=[gpu(power_w=-1)])), "body.samples[0].gpus[0].power_w"),
        (report(sample(gpus=[gpu(remap_failed="no")])), "body.samples[0].gpus[0].remap_failed"),
        (report(sample(gpus=[gpu(recovery_action="pray")])), "body.samples[0].gpus[0].recovery_action"),
        (report(sample(gpus=[gpu(recovery_action=[])])), "body.samples[0].gpus[0].recovery_action"),
        (report(sample(cpu_percent="1")), "body.samples[0].cpu_percent"),
        (report(xids=[{"code": 79}] * 65), "body.xids"),
        (report(xids=[{"code": 7.9}]), "body.xids[0].code"),
        (report(benchmark=[]), "body.benchmark"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_its_field(value: Any, field: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        arrived(value)
    assert field in str(raised.value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["utilization", "power_w", "temperature_c", "ecc_uncorrected"])
def test_numbers_are_finite(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=field):
        parse_samples(report(sample(gpus=[gpu(**{field: json.loads(text)})])))
    with pytest.raises(ValueError, match="at"):
        parse_samples(report(sample(at=json.loads(text))))
