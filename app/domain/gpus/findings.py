"""What can be wrong with the GPUs of a VM, and what follows for their proof and their health."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self


class Severity(StrEnum):
    """How bad a finding is, the worst first.

    `fatal`: the VM must be replaced. `reboot`: a reboot may help. `degraded`: the GPU works, and wears out. `shown`: the
    tenant's program caused it, or it needs no action.
    """

    FATAL = "fatal"
    REBOOT = "reboot"
    DEGRADED = "degraded"
    SHOWN = "shown"


class ProofStatus(StrEnum):
    """The outcome of the proof. `pending`: awaited. `none`: the VM sent none in time."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    NONE = "none"


class ProofChannel(StrEnum):
    """How a proof arrived: over the network, or as a line of the VM's serial console."""

    NETWORK = "network"
    CONSOLE = "console"


class HealthStatus(StrEnum):
    """The health of a lease's GPUs after the proof, as the agent reports it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILING = "failing"
    UNKNOWN = "unknown"


FAILING = frozenset({Severity.FATAL, Severity.REBOOT})
"""Severities of a GPU that cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`gpu`: the GPU's UUID; None: all GPUs of the VM, or unknown. `message` is one sentence for a person."""

    code: str
    severity: Severity
    gpu: str | None
    message: str

    def as_json(self) -> dict[str, Any]:
        """{code, severity, gpu, message}."""
        return {**asdict(self), "severity": str(self.severity)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(value["code"], Severity(value["severity"]), value["gpu"], value["message"])


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a lease's GPUs since a time. `findings`: the worst first."""

    status: HealthStatus
    since: datetime
    findings: tuple[Finding, ...] = ()


def health_status(findings: Iterable[Finding]) -> HealthStatus:
    """The health of GPUs with these findings."""
    severities = {finding.severity for finding in findings}
    if severities & FAILING:
        return HealthStatus.FAILING
    return HealthStatus.DEGRADED if Severity.DEGRADED in severities else HealthStatus.HEALTHY
