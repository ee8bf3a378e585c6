"""What is wrong with the GPUs of a VM: a report against what the offering promises. Pure.

The driver's recovery action is asked first. Where every GPU answers that it needs none, Xids that call for a reset are
old news: they degrade the health, and no VM is replaced for them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from app.domain.gpus.findings import FAILING, Finding, HealthStatus, Severity, health_status
from app.domain.gpus.reports import AgentError, GpuReport, GpuState, Matmul, Proof, RecoveryAction, Xid
from app.domain.gpus.xids import UNKNOWN_XID, XIDS
from app.domain.offerings import GpuVendor, Interconnect

MOST_FINDINGS = 32
"""Kept of one report, the worst first."""

_LEAST_MEMORY = 0.9
"""Drivers report less memory than the catalogue names: 15 GiB of a T4's 16."""
_LEAST_PART_MEMORY = 0.75
"""Of a part of a GPU, of which the driver keeps a larger share."""

_SEPARATORS = re.compile(r"[^a-z0-9]+")
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(\.[0-9a-fA-F])?")
_SEVERITIES = list(Severity)

TENANTS_NEEDED = 2
"""Tenants whose VMs must have shown the same before it concerns others: each of them can forge what its VMs report."""

WHOLE_HOST = 8
"""A VM with this number of GPUs has all GPUs of its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGpus:
    """What the offering promises. `fraction`: the share of a GPU that each is. `own_image`: the tenant chose the image.

    `known_bad`: UUIDs among the reported ones that failed a check lately.
    """

    model: str
    count: int
    memory_gib: int
    vendor: GpuVendor = GpuVendor.NVIDIA
    fraction: float = 1.0
    interconnect: Interconnect = Interconnect.PCIE
    own_image: bool = False
    known_bad: frozenset[str] = frozenset()

    @classmethod
    def of(cls, offering: Mapping[str, Any], *, own_image: bool, known_bad: Iterable[str] = ()) -> Self:
        """`offering`: the facts that an attempt stores, see `placed.hardware`. Earlier versions stored fewer."""
        gpu = offering["gpu"]
        return cls(
            model=gpu["model"],
            count=gpu["count"],
            memory_gib=gpu["memory_gib"],
            vendor=GpuVendor(gpu.get("vendor") or GpuVendor.NVIDIA),
            fraction=gpu.get("fraction") or 1.0,
            interconnect=Interconnect(gpu.get("interconnect") or Interconnect.PCIE),
            own_image=own_image,
            known_bad=frozenset(known_bad),
        )


def judge(proof: Proof, expected: ExpectedGpus) -> tuple[Finding, ...]:
    """What is wrong with the GPUs of a VM that has just booted, the worst first."""
    findings = [*judge_errors(proof.errors), *judge_xids(proof.xids, proof.gpus, expected)]
    listed, named = len(proof.gpus), proof.driver_gpus
    if listed or named is not None:
        visible = min(named, listed or named) if named is not None else listed
        findings += [_missing(visible, expected)] if visible < expected.count else []
    if not listed and not has_failed(findings):
        findings.append(_no_driver(expected))
    return worst_first([*findings, *_hardware(proof.gpus, expected), *_state(proof.gpus, expected)])


def judge_health(
    report: GpuReport, expected: ExpectedGpus, before: Iterable[Finding] = ()
) -> tuple[HealthStatus, tuple[Finding, ...]]:
    """The health of an active lease's GPUs, as its agent reports, and what is wrong with them. `before`: the last findings.

    A tenant may unload the driver, so a report without GPUs alone is no failure: the health is unknown. What needs no
    list of GPUs counts in any report. An Xid of which the driver said before that no reset is needed stays so while no
    driver answers.
    """
    gpus, named = report.gpus, report.driver_gpus
    settled = {(finding.code, finding.message) for finding in before if finding.severity is Severity.DEGRADED}
    xids = judge_xids(report.xids, gpus, expected)
    if not gpus:
        xids = tuple(
            replace(finding, severity=Severity.DEGRADED)
            if finding.severity is Severity.REBOOT and (finding.code, finding.message) in settled
            else finding
            for finding in xids
        )
    if named is None and gpus:
        named = len(gpus)
    missing = [_missing(named, expected)] if named is not None and named < expected.count else []
    findings = worst_first([*missing, *judge_errors(report.errors), *_state(gpus, expected), *xids])
    status = health_status(findings)
    if status is HealthStatus.HEALTHY and len(gpus) < expected.count:
        status = HealthStatus.UNKNOWN
    return status, findings


def has_failed(findings: Iterable[Finding]) -> bool:
    """Whether a VM with these findings cannot be used as it is."""
    return any(finding.severity in FAILING for finding in findings)


def is_fatal(findings: Iterable[Finding]) -> bool:
    """Whether a reboot cannot help."""
    return any(finding.severity is Severity.FATAL for finding in findings)


def bad_uuids(findings: Iterable[Finding], uuids: Sequence[str], count: int) -> Mapping[str, str]:
    """GPUs to remember, with the code of their first finding. `uuids`: of all GPUs in the report. `count`: that the VM should have.

    A finding that names no GPU, such as a missing one, is remembered for all GPUs of a VM that has the whole host. A GPU
    that is known as bad already proves nothing new. A report of more GPUs than the VM can have proves nothing at all.
    """
    remembered: dict[str, str] = {}
    if len(uuids) > count:
        return remembered
    for finding in findings:
        if finding.severity not in FAILING or finding.code == "known_bad_gpu":
            continue
        if finding.gpu is not None:
            remembered.setdefault(finding.gpu, finding.code)
        elif count >= WHOLE_HOST:
            for uuid in uuids:
                remembered.setdefault(uuid, finding.code)
    return remembered


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, at most `MOST_FINDINGS`."""
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: (_SEVERITIES.index(finding.severity), finding.code))
    return tuple(ordered[:MOST_FINDINGS])


def no_proof() -> Finding:
    """The finding of a lease that requires a proof and got none."""
    return Finding("no_proof", Severity.FATAL, None, "the VM sent no proof of its GPUs in time")


# --- hardware ---------------------------------------------------------------------------------------------------


def _no_driver(expected: ExpectedGpus) -> Finding:
    severity = Severity.SHOWN if expected.own_image else Severity.FATAL
    return Finding("no_driver", severity, None, "no driver answered, so no GPU was seen")


def _missing(count: int, expected: ExpectedGpus) -> Finding:
    message = f"{count} of {expected.count} GPUs are visible"
    return Finding("gpu_missing", Severity.FATAL, None, message)


def _hardware(gpus: Sequence[GpuState], expected: ExpectedGpus) -> Iterable[Finding]:
    for gpu in gpus:
        if gpu.uuid is not None and gpu.uuid in expected.known_bad:
            message = "this GPU failed a check before, and is remembered for 30 days"
            yield Finding("known_bad_gpu", Severity.FATAL, gpu.uuid, message)
        if gpu.model is not None and not is_model(gpu.model, expected.model):
            # names of AMD's tools differ by version: they are no proof of another model
            severity = Severity.SHOWN if expected.vendor is GpuVendor.AMD else Severity.FATAL
            message = f"the driver names another model than {expected.model}"
            yield Finding("wrong_model", severity, gpu.uuid, message)
        least = _LEAST_MEMORY if expected.fraction == 1.0 else _LEAST_PART_MEMORY
        if gpu.memory_mib is not None and gpu.memory_mib < expected.memory_gib * 1024 * least:
            message = f"{gpu.memory_mib} MiB of memory instead of {expected.memory_gib} GiB"
            yield Finding("too_little_memory", Severity.FATAL, gpu.uuid, message)


def is_model(reported: str, model: str) -> bool:
    """Whether the driver's name of a GPU, such as `NVIDIA A100-SXM4-40GB`, is one of the catalogue's model."""
    seen, model_words = _words(reported), _words(model)
    return any(seen[start : start + len(model_words)] == model_words for start in range(len(seen)))


def _words(name: str) -> list[str]:
    return [word for word in _SEPARATORS.split(name.lower()) if word]


# --- state ------------------------------------------------------------------------------------------------------


def _state(gpus: Sequence[GpuState], expected: ExpectedGpus) -> Iterable[Finding]:
    """Findings that the driver reports of single GPUs. A recovered ECC error alone is none."""
    for gpu in gpus:
        if gpu.impossible:
            message = f"values that cannot be true are left out: {', '.join(gpu.impossible)}"
            yield Finding("impossible_values", Severity.SHOWN, gpu.uuid, message)
        action = gpu.recovery_action
        if action not in (None, RecoveryAction.NONE, RecoveryAction.UNKNOWN):
            message = f"the driver requests {_ACTIONS[action]}"
            yield Finding("recovery_action", Severity.REBOOT, gpu.uuid, message)
        if gpu.remap_failed:
            yield Finding("remap_failed", Severity.FATAL, gpu.uuid, "a row of the GPU's memory could not be remapped")
        if gpu.remap_pending:
            message = "a row of the GPU's memory is remapped at the next reset"
            yield Finding("remap_pending", Severity.DEGRADED, gpu.uuid, message)
        if gpu.matmul is Matmul.FAILED:
            message = "a matrix multiplication failed or gave a wrong result"
            yield Finding("matmul_failed", Severity.FATAL, gpu.uuid, message)
    yield from _links(gpus, expected)


_ACTIONS: Mapping[RecoveryAction | None, str] = {
    RecoveryAction.RESET: "a reset of the GPU",
    RecoveryAction.REBOOT: "a reboot",
    RecoveryAction.DRAIN_P2P: "draining the traffic between GPUs",
    RecoveryAction.DRAIN_AND_RESET: "draining and resetting the GPU",
}


def _links(gpus: Sequence[GpuState], expected: ExpectedGpus) -> Iterable[Finding]:
    """NVLink, where the type has it.

    A GPU with fewer links than its neighbours is broken behind a switch. In a mesh the VM may not have all neighbours,
    so only a GPU without any link is.
    """
    if expected.interconnect not in (Interconnect.NVLINK, Interconnect.NVSWITCH) or expected.count == 1:
        return
    most = max((gpu.nvlinks_up for gpu in gpus if gpu.nvlinks_up is not None), default=0)
    for gpu in gpus:
        if gpu.nvlinks_up is None:
            continue
        least = most if expected.interconnect is Interconnect.NVSWITCH else 1
        links = f"{gpu.nvlinks_up} of {gpu.nvlinks or most} NVLink links are up"
        if gpu.nvlinks_up < max(least, 1) and (most or gpu.nvlinks):
            yield Finding("nvlink_down", Severity.REBOOT, gpu.uuid, links)
        elif expected.interconnect is Interconnect.NVSWITCH and gpu.nvlinks_up < (gpu.nvlinks or 0):
            yield Finding("nvlink_down", Severity.DEGRADED, gpu.uuid, links)


# --- errors -----------------------------------------------------------------------------------------------------


def judge_errors(errors: Iterable[AgentError]) -> tuple[Finding, ...]:
    """What follows from what the driver's libraries and programs could not do.

    NVML and nvidia-smi have the same codes (https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html). A GPU
    that the driver names and does not let the agent read cannot be used.
    """
    return tuple(dict.fromkeys(_error(error) for error in errors))


_LOST, _NEEDS_RESET, _NO_FAILURE = frozenset({8, 15}), 16, frozenset({4, 9})
_NVML_CODES = {
    4: "no permission",
    8: "external power is not connected",
    9: "the driver is not loaded",
    10: "time-out",
    15: "the GPU is lost",
    16: "the GPU needs a reset",
    18: "the library and the kernel module have different versions",
}


def _error(error: AgentError) -> Finding:
    if error.source not in ("nvml", "nvidia-smi"):
        return Finding("driver_error", Severity.SHOWN, None, error.text)
    name = _NVML_CODES.get(error.code or 0)
    message = error.text if name is None else f"{error.text}: {name}"
    if error.code in _LOST:
        return Finding("gpu_lost", Severity.FATAL, None, message)
    if error.code == _NEEDS_RESET or (error.gpu is not None and error.code not in _NO_FAILURE):
        return Finding("gpu_unreadable", Severity.REBOOT, None, message)
    return Finding("driver_error", Severity.SHOWN, None, message)


# --- Xids -------------------------------------------------------------------------------------------------------


def judge_xids(xids: Sequence[Xid], gpus: Sequence[GpuState], expected: ExpectedGpus) -> tuple[Finding, ...]:
    """What follows from the Xids since boot, each code once per GPU."""
    settled = bool(gpus) and all(gpu.recovery_action is RecoveryAction.NONE for gpu in gpus)
    only = gpus[0].uuid if len(gpus) == expected.count == 1 else None
    return tuple(dict.fromkeys(_xid(xid, only, settled=settled) for xid in xids))


def _xid(xid: Xid, only: str | None, *, settled: bool) -> Finding:
    rule = XIDS.get(xid.code, UNKNOWN_XID)
    severity = Severity.DEGRADED if settled and rule.severity is Severity.REBOOT else rule.severity
    where = f" at {xid.gpu.lower()}" if xid.gpu is not None and _PCI.fullmatch(xid.gpu) else ""
    return Finding(f"xid_{xid.code}", severity, only, f"Xid {xid.code}{where}: {rule.name}")
