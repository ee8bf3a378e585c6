"""Samples of agents: strict, so that root of a VM stores nothing else."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from app.domain.gpus.reports import MOST_GPUS
from app.domain.gpus.samples import LEASE_SERIES, Sample, SampleReport, parse_samples

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
    return parse_samples(value).timely(ARRIVED)


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
        (report(sample(at=None)), "body.samples[0].at"),
        (report(sample(at="now")), "body.samples[0].at"),
        (report(sample(at=True)), "body.samples[0].at"),
        (report(sample(gpus=[gpu(uuid=f"GPU-{n}") for n in range(MOST_GPUS + 1)])), "body.samples[0].gpus"),
        (report(sample(gpus=[gpu(uuid=f"GPU-{n}") for n in range(10_000)])), "body.samples[0].gpus"),
        (report(sample(gpus=[gpu(), gpu()])), "body.samples.gpus"),
        (report(sample(gpus=[gpu(uuid="x" * 101)])), "body.samples[0].gpus[0].uuid"),
        (report(sample(gpus=[gpu(utilization="101")])), "body.samples[0].gpus[0].utilization"),
        (report(sample(gpus=[gpu(power_w=True)])), "body.samples[0].gpus[0].power_w"),
        (report(sample(errors=[{"source": "nvml"}])), "body.samples[0].errors[0].text"),
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


# --- values that a driver may return and that cannot be true ------------------------------------------------------

UNSIGNED, LONG = 2**32 - 1, 2**64 - 1
DRIVER_VALUES: dict[str, tuple[float, ...]] = {
    "utilization": (0, 1, 334, UNSIGNED - 1, UNSIGNED),
    "memory_used_mib": (0, 1, LONG >> 20),
    "memory_mib": (0, 1, LONG >> 20),
    "power_w": (0, 1, -2, 3_700_000, UNSIGNED / 1000),
    "temperature_c": (0, 1, 2**31, UNSIGNED),
    "sm_clock_mhz": (0, 1, UNSIGNED - 1, UNSIGNED),
    "ecc_uncorrected": (0, 1, 2**63, LONG - 1, LONG),
    "throttle": (0, 1, 2**63, LONG - 1, LONG),
    "cpu_percent": (0, 1, -0.1, 100.1),
    "memory_percent": (0, 1, -3.0, UNSIGNED),
    "disk_percent": (0, 1, -3.0, UNSIGNED),
}
"""By member, values of its C type, with those that public reports name."""


@pytest.mark.parametrize("name", DRIVER_VALUES)
def test_an_impossible_value_is_left_out_alone(name: str) -> None:
    of_host = name.endswith("_percent")
    for value in DRIVER_VALUES[name]:
        gpus = [gpu(), gpu(uuid="GPU-broken", **({} if of_host else {name: value}))]
        host = {name: value} if of_host else {}
        sent = report(sample(at=NOW - 60), sample(gpus=gpus, **host), xids=[{"code": 79}])
        read = parse_samples(sent).timely(ARRIVED)
        last = read.samples[-1]
        kept = value in (0, 1)
        assert (len(read.samples), len(read.xids), read.left_out) == (2, 1, 0 if kept else 1)
        assert getattr(last if of_host else last.gpus[1], name) == (value if kept else None)
        assert last.gpus[0] == parsed(report()).gpus[0], "the other GPU is as it was"
        assert last.gpus[1].impossible == (() if kept or of_host else (name,))


# --- clocks -------------------------------------------------------------------------------------------------------

HOUR = 3600.0
CLOCKS = [0.0, 29.0, 31.0, 40.0, -60.0, -600.0, -HOUR, HOUR, 365 * 24 * HOUR, -50 * 365 * 24 * HOUR]


@pytest.mark.parametrize("ahead", CLOCKS)
def test_whatever_the_vms_clock_says_a_report_is_taken_with_times_that_can_be_true(ahead: float) -> None:
    clock = NOW + ahead
    sent = [sample(at=clock - 60 * n) for n in (3, 2, 1, 0)]
    read = parse_samples(report(*sent, xids=[{"code": 79, "at": clock - 90}])).timely(ARRIVED)
    times = [one.at.timestamp() - NOW for one in read.samples]
    assert [later - before for before, later in pairwise(times)] == pytest.approx([60.0] * (len(times) - 1))
    assert -900 <= times[0] < times[-1] <= 30
    assert [xid.code for xid in read.xids] == [79]
    assert read.xids[0].at is not None
    assert -1000 <= read.xids[0].at.timestamp() - NOW <= 30
    assert len(read.samples) == 4 - read.left_out == 4


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 120.0, -120.0])
def test_a_clock_that_jumped_costs_the_samples_of_before_at_most(jump: float) -> None:
    before = [sample(at=NOW - jump - 60 * n) for n in (4, 3, 2)]
    read = parse_samples(report(*before, sample(at=NOW - 60), sample(at=NOW))).timely(ARRIVED)
    assert [one.at.timestamp() for one in read.samples][-2:] == [NOW - 60, NOW]
    assert len(read.samples) + read.left_out == 5
    assert all(later.at > one.at for one, later in pairwise(read.samples))


def test_one_old_sample_of_ten_is_left_out_alone() -> None:
    young = [sample(at=NOW - 60 * n) for n in range(8, -1, -1)]
    read = parse_samples(report(sample(at=NOW - 901), *young)).timely(ARRIVED)
    assert [one.at.timestamp() for one in read.samples] == [one["at"] for one in young]
    assert read.left_out == 1


def test_an_xid_of_the_future_has_no_time() -> None:
    read = parse_samples(report(xids=[{"code": 79, "at": NOW + HOUR}, {"code": 48, "at": NOW}])).timely(ARRIVED)
    assert [xid.at for xid in read.xids] == [None, ARRIVED]
