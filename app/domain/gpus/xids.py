"""Xids: errors that NVIDIA's driver writes to the kernel's log, and what follows from each.

Sources: NVIDIA's catalog (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), its guide to debugging
GPUs (https://docs.nvidia.com/deploy/gpu-debug-guidelines/), and GPUd's list (https://github.com/leptonai/gpud, folder
components/accelerator/nvidia/xid). Names are NVIDIA's. NVIDIA's resolutions become four severities: replacing a part
and power-cycling a host are `fatal` for a rented VM, resetting a GPU or rebooting is `reboot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.domain.gpus.findings import Severity


@dataclass(frozen=True, slots=True)
class XidRule:
    """What one code means."""

    severity: Severity
    name: str


_NVLINK_CODES = range(144, 151)
_NVLINK_UNITS = ("SAW", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE")

XIDS: Mapping[int, XidRule] = MappingProxyType(
    {
        # a part of the host is broken: the VM cannot repair it
        54: XidRule(Severity.FATAL, "auxiliary power is not connected"),
        64: XidRule(Severity.FATAL, "a row of the GPU's memory could not be remapped"),
        79: XidRule(Severity.FATAL, "the GPU has fallen off the bus"),
        140: XidRule(Severity.FATAL, "unrecovered ECC error"),
        143: XidRule(Severity.FATAL, "the GPU could not be initialized"),
        158: XidRule(Severity.FATAL, "fatal time-out of the GPU"),
        # the GPU needs a reset, which a rented VM gets by a reboot
        46: XidRule(Severity.REBOOT, "the GPU stopped processing"),
        48: XidRule(Severity.REBOOT, "double-bit ECC error"),
        62: XidRule(Severity.REBOOT, "the internal micro-controller halted"),
        74: XidRule(Severity.REBOOT, "NVLink error"),
        95: XidRule(Severity.REBOOT, "uncontained memory error"),
        119: XidRule(Severity.REBOOT, "time-out of the GPU System Processor"),
        120: XidRule(Severity.REBOOT, "error of the GPU System Processor"),
        **{
            code: XidRule(Severity.REBOOT, f"NVLink error ({unit})")
            for code, unit in zip(_NVLINK_CODES, _NVLINK_UNITS, strict=True)
        },
        # the GPU has recovered, and its memory wears out
        63: XidRule(Severity.DEGRADED, "a row of the GPU's memory is remapped"),
        92: XidRule(Severity.DEGRADED, "high rate of single-bit ECC errors"),
        94: XidRule(Severity.DEGRADED, "contained memory error"),
        # caused by a program, or followed by a recovery action that is asked for separately
        13: XidRule(Severity.SHOWN, "graphics engine exception"),
        31: XidRule(Severity.SHOWN, "memory page fault"),
        43: XidRule(Severity.SHOWN, "a program's channel was reset"),
        45: XidRule(Severity.SHOWN, "preemptive cleanup after an earlier error"),
        68: XidRule(Severity.SHOWN, "video decoder exception"),
        69: XidRule(Severity.SHOWN, "graphics engine class error"),
        109: XidRule(Severity.SHOWN, "context switch time-out"),
        154: XidRule(Severity.SHOWN, "the GPU's recovery action changed"),
    }
)
"""By code. A code that is not here is shown, and nothing follows from it."""

UNKNOWN_XID = XidRule(Severity.SHOWN, "not in gpulease's table")
