"""What the agent in a VM reports of its GPUs: the proof, parsed strictly. Nothing of it is trusted.

`report_values` has the readers of single values; a report of another kind uses the same ones.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.domain.gpus.report_values import Reader, check_keys

PROOF_VERSION = 1
MOST_GPUS = 64
MOST_XIDS = 64
MOST_ERRORS = 8
MOST_DRIVER_GPUS = 1024
MOST_MIB = 16_777_216
"""Of one GPU."""
MOST_COUNT = 2**53
"""Of errors. JSON readers keep whole numbers up to this one."""
LONGEST_TEXT = 100
LONGEST_ERROR = 200
LONGEST_REPORT = 16_384
"""Bytes of one report."""
CONSOLE_MARK = "gpulease-proof "
"""What the console's line of a proof starts with."""
LONGEST_CONSOLE_LINE = 4096
FUTURE = timedelta(seconds=30)
"""A VM's clock may be ahead by this much."""


class RecoveryAction(StrEnum):
    """What NVIDIA's driver says a GPU needs (NVML field 230)."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    DRAIN_P2P = "drain_p2p"
    DRAIN_AND_RESET = "drain_and_reset"
    UNKNOWN = "unknown"


class Matmul(StrEnum):
    """The outcome of a short matrix multiplication on a GPU."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class GpuVendorSeen(StrEnum):
    """Whose GPUs the agent found."""

    NVIDIA = "nvidia"
    AMD = "amd"
    NONE = "none"


class ReportSource(StrEnum):
    """The library or program that the agent asked."""

    NVML = "nvml"
    NVIDIA_SMI = "nvidia-smi"
    AMD_SMI = "amd-smi"
    ROCM_SMI = "rocm-smi"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU as the agent saw it. None: unknown. `impossible`: members whose values cannot be true."""

    index: int | None = None
    uuid: str | None = None
    model: str | None = None
    memory_mib: int | None = None
    ecc_uncorrected: int | None = None
    remap_failed: bool | None = None
    remap_pending: bool | None = None
    recovery_action: RecoveryAction | None = None
    nvlinks_up: int | None = None
    nvlinks: int | None = None
    matmul: Matmul | None = None
    impossible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An error that NVIDIA's driver wrote to the kernel's log. `gpu`: the PCI address."""

    code: int
    gpu: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AgentError:
    """What a library or program of a driver could not do. `source`: its name.

    `gpu`: the driver's index of the GPU that it concerns. `code`: of NVML, or the exit status of a program.
    """

    source: str
    text: str
    gpu: int | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """What is known of a VM's GPUs at one moment. `gpus`: those that the driver let the agent read.

    `driver_gpus`: how many the driver names. None: no driver answered, or it does not say.
    """

    gpus: tuple[GpuState, ...]
    driver_gpus: int | None = None
    xids: tuple[Xid, ...] = ()
    errors: tuple[AgentError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof(GpuReport):
    """The state of a VM's GPUs after a boot, before the tenant's script ran. None: unknown. `at`: of the VM's clock."""

    agent: str
    at: datetime
    boot_id: str | None = None
    vendor: GpuVendorSeen | None = None
    source: ReportSource | None = None
    driver_version: str | None = None
    cuda_version: str | None = None


def parse_proof(value: Any, *, now: datetime | None = None) -> Proof:
    """A proof from its JSON. Raises ValueError naming the field. `now`: of its arrival, after which no Xid has its time.

    The VM's clock decides nothing: a VM that has just booted may not have set it yet.
    """
    report = Reader(value, "proof")
    check_keys(value, _PROOF_KEYS, "proof")
    if report.integer("version", 1, 1_000_000, required=True) != PROOF_VERSION:
        raise ValueError(f"proof.version must be {PROOF_VERSION}")
    at = report.time("at", required=True)
    agent = report.text("agent", LONGEST_TEXT, required=True)
    assert at is not None
    assert agent is not None
    gpus = report.objects("gpus", MOST_GPUS, required=True)
    return Proof(
        agent=agent,
        at=at,
        gpus=tuple(_gpu(gpu) for gpu in gpus),
        boot_id=report.text("boot_id", LONGEST_TEXT),
        vendor=report.choice("vendor", GpuVendorSeen),
        source=report.choice("source", ReportSource),
        driver_version=report.text("driver_version", LONGEST_TEXT),
        cuda_version=report.text("cuda_version", LONGEST_TEXT),
        driver_gpus=report.counted("driver_gpus", 0, MOST_DRIVER_GPUS),
        xids=parse_xids(report) if now is None else timely_xids(parse_xids(report), now),
        errors=parse_errors(report),
    )


_PROOF_KEYS = frozenset(
    {
        "version",
        "agent",
        "at",
        "boot_id",
        "vendor",
        "source",
        "driver_version",
        "cuda_version",
        "gpus",
        "driver_gpus",
        "xids",
        "errors",
    }
)


def parse_xids(report: Reader) -> tuple[Xid, ...]:
    """The member `xids` of a report."""
    return tuple(_xid(xid) for xid in report.objects("xids", MOST_XIDS))


def timely_xids(xids: Sequence[Xid], now: datetime, ahead: timedelta = timedelta()) -> tuple[Xid, ...]:
    """Xids of a report that arrives at `now`. `ahead`: of the VM's clock. A time in the future is unknown."""
    times = (None if xid.at is None or xid.at - ahead > now + FUTURE else xid.at - ahead for xid in xids)
    return tuple(replace(xid, at=at) for xid, at in zip(xids, times, strict=True))


def parse_errors(report: Reader) -> tuple[AgentError, ...]:
    """The member `errors` of a report."""
    return tuple(_agent_error(error) for error in report.objects("errors", MOST_ERRORS))


def _gpu(report: Reader) -> GpuState:
    return GpuState(
        index=report.counted("index", 0, 1_000_000),
        uuid=report.text("uuid", LONGEST_TEXT),
        model=report.text("model", LONGEST_TEXT),
        memory_mib=report.counted("memory_mib", 0, MOST_MIB),
        ecc_uncorrected=report.counted("ecc_uncorrected", 0, MOST_COUNT),
        remap_failed=report.flag("remap_failed"),
        remap_pending=report.flag("remap_pending"),
        recovery_action=report.choice("recovery_action", RecoveryAction),
        nvlinks_up=report.counted("nvlinks_up", 0, 1_000_000),
        nvlinks=report.counted("nvlinks", 0, 1_000_000),
        matmul=report.choice("matmul", Matmul),
        impossible=report.impossible,
    )


def _xid(report: Reader) -> Xid:
    code = report.integer("code", 0, 1_000_000, required=True)
    assert code is not None
    return Xid(code=code, gpu=report.text("gpu", LONGEST_TEXT), at=report.time("at"))


def _agent_error(report: Reader) -> AgentError:
    source = report.text("source", LONGEST_TEXT, required=True)
    text = report.text("text", LONGEST_ERROR, required=True)
    assert source is not None
    assert text is not None
    gpu, code = report.counted("gpu", 0, MOST_DRIVER_GPUS), report.counted("code", -(2**31), 2**32)
    return AgentError(source, text, gpu, code)


# --- the console ----------------------------------------------------------------------------------------------


def console_mac(token: str, proof: Any) -> str:
    """The MAC of the console's line: over the canonical JSON of the proof, with the agent's token."""
    message = json.dumps(proof, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def proofs_on_console(text: str, token: str) -> tuple[Any, ...]:
    """The JSON of every genuine proof in a console's output, in order. Lines with a wrong MAC are skipped."""
    proofs = []
    for line in text.splitlines():
        _, mark, rest = line.partition(CONSOLE_MARK)
        if not mark or len(rest) > LONGEST_CONSOLE_LINE:
            continue
        proof = _genuine(rest, token)
        if proof is not None:
            proofs.append(proof)
    return tuple(proofs)


def _genuine(text: str, token: str) -> Any:
    try:
        line, _ = json.JSONDecoder().raw_decode(text.strip())
        mac, proof = line["mac"], line["proof"]
        expected = console_mac(token, proof)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return proof if isinstance(mac, str) and hmac.compare_digest(mac.encode(), expected.encode()) else None
