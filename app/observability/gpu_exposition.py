"""Samples of leases as Prometheus text, with the names and labels of NVIDIA's DCGM-exporter.

The names are those of `etc/default-counters.csv` in NVIDIA/dcgm-exporter. Boards made for it need no change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Values = Mapping[str, Any]


class _Metric(NamedTuple):
    """`value` of a GPU in a sample; None: not reported."""

    name: str
    kind: str
    help: str
    value: Callable[[Values], float | None]


def _free(gpu: Values) -> float | None:
    used, total = gpu["memory_used_mib"], gpu["memory_mib"]
    return None if used is None or total is None else max(total - used, 0)


def _flag(gpu: Values) -> int | None:
    return None if gpu["remap_failed"] is None else int(gpu["remap_failed"])


_GPU_METRICS = (
    _Metric("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", lambda gpu: gpu["sm_clock_mhz"]),
    _Metric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda gpu: gpu["temperature_c"]),
    _Metric("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda gpu: gpu["power_w"]),
    _Metric("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", lambda gpu: gpu["utilization"]),
    _Metric("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda gpu: gpu["memory_used_mib"]),
    _Metric("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", _free),
    _Metric(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Total number of double-bit volatile ECC errors.",
        lambda gpu: gpu["ecc_uncorrected"],
    ),
    _Metric("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed.", _flag),
    _Metric(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Current clock throttle reasons.", lambda gpu: gpu["throttle"]
    ),
)
_XID = ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.")
_HOST_METRICS = (
    ("gpulease_lease_cpu_percent", "CPU load of the lease's VM (in %).", "cpu_percent"),
    ("gpulease_lease_memory_percent", "Used memory of the lease's VM (in %).", "memory_percent"),
    ("gpulease_lease_disk_percent", "Used disk space of the lease's VM (in %).", "disk_percent"),
)
METRIC_NAMES = frozenset(
    {
        *(metric.name for metric in _GPU_METRICS),
        _XID[0],
        *(name for name, _, _ in _HOST_METRICS),
        "gpulease_lease_gpus",
        "gpulease_lease_sample_age_seconds",
    }
)


def exposition(rows: Sequence[Mapping[str, Any]]) -> str:
    """Text in the exposition format 0.0.4, of rows of `app.db.gpus.fleet.REPORTING`."""
    gpus = [(labels, gpu) for row in rows for labels, gpu in _gpus(row)]
    lines: list[str] = []
    for metric in _GPU_METRICS:
        _family(lines, metric.name, metric.kind, metric.help, ((labels, metric.value(gpu)) for labels, gpu in gpus))
    xids = [(labels, xid) for row in rows for labels, xid in _last_xids(row)]
    _family(lines, *_XID, xids)
    leases = [("{" + _labels(_lease_labels(row)) + "}", row) for row in rows]
    for name, text, field in _HOST_METRICS:
        _family(lines, name, "gauge", text, ((labels, row["sample"][field]) for labels, row in leases))
    _family(
        lines,
        "gpulease_lease_gpus",
        "gauge",
        "GPUs that are paid for.",
        ((labels, row["gpu_count"]) for labels, row in leases),
    )
    _family(
        lines,
        "gpulease_lease_sample_age_seconds",
        "gauge",
        "Age of the newest sample.",
        ((labels, round(float(row["age_seconds"]), 1)) for labels, row in leases),
    )
    return "".join(f"{line}\n" for line in lines)


def _family(lines: list[str], name: str, kind: str, text: str, values: Iterable[tuple[str, Any]]) -> None:
    lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{labels} {value}" for labels, value in values if value is not None]


def _gpus(row: Mapping[str, Any]) -> Iterable[tuple[str, Values]]:
    """The labels of each GPU in the newest sample, and its values. A GPU keeps its index while others are missing."""
    models = {proven["uuid"]: proven["model"] for proven in row["proven"] or ()}
    of_lease = _lease_labels(row)
    places = {uuid: place for place, uuid in enumerate(row["metric_labels"]["uuids"])}
    for gpu in row["sample"]["gpus"]:
        index = places[gpu["uuid"]]
        own = {
            "gpu": str(index),
            "UUID": gpu["uuid"],
            "device": f"nvidia{index}",
            "modelName": models.get(gpu["uuid"]) or row["gpu_model"] or "",
            "Hostname": of_lease["lease_name"],
        }
        yield "{" + _labels({**own, **of_lease}) + "}", gpu


def _last_xids(row: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """The code of the VM's last Xid, 0 without one. Every GPU has it: an Xid names a PCI address, and samples name none."""
    xids = row["xids"] or []
    code = xids[-1]["code"] if xids else 0
    return ((labels, code) for labels, _ in _gpus(row))


def _lease_labels(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "lease_id": row["lease_id"],
        "lease_name": row["metric_labels"]["name"],
        "tenant_id": row["tenant_id"],
        "provider": row["provider"] or "",
        "region": row["region"] or "",
        "instance_type": row["instance_type"],
    }


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
