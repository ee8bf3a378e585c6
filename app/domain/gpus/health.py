"""The health of an active lease's GPUs, as its lease stores it. The agent reports it, and root in the VM can forge it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from app.domain.event_parts import rfc3339
from app.domain.gpus.checks import ExpectedGpus, judge_health
from app.domain.gpus.findings import Finding, HealthStatus
from app.domain.gpus.reports import GpuReport

PRIVATE_MEMBERS = ("n", "rejected")
"""Members of the stored form that callers are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """The health of the VM of attempt `n` since a time. `rejected`: the VM is being ended for it."""

    n: int
    status: HealthStatus
    since: datetime
    findings: tuple[Finding, ...] = ()
    rejected: bool = False

    def as_json(self) -> dict[str, Any]:
        """The stored form. Without `PRIVATE_MEMBERS` it is what callers are shown."""
        return {
            "n": self.n,
            "status": str(self.status),
            "since": rfc3339(self.since),
            "findings": [finding.as_json() for finding in self.findings],
            "rejected": self.rejected,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(
            n=value["n"],
            status=HealthStatus(value["status"]),
            since=datetime.fromisoformat(value["since"]),
            findings=tuple(Finding.from_json(finding) for finding in value["findings"]),
            rejected=value["rejected"],
        )


def next_health(
    report: GpuReport, expected: ExpectedGpus, before: HealthRecord | None, *, n: int, now: datetime
) -> HealthRecord | None:
    """The new record of a report for attempt `n`. None: the health is as it was.

    `since` stays while the status does, even if the findings change.
    """
    previous = before if before is not None and before.n == n else None
    status, findings = judge_health(report, expected, () if previous is None else previous.findings)
    if previous is not None and previous.rejected:
        return None
    if previous is not None and (previous.status, previous.findings) == (status, findings):
        return None
    since = previous.since if previous is not None and previous.status is status else now
    return HealthRecord(n=n, status=status, since=since, findings=findings)
