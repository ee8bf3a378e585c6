"""The proof of a VM's GPUs, as its lease stores it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from app.domain.event_parts import rfc3339
from app.domain.gpus.checks import ExpectedGpus, has_failed, judge, worst_first
from app.domain.gpus.findings import Finding, ProofChannel, ProofStatus
from app.domain.gpus.reports import Proof

_MEASURING = timedelta(seconds=90)
"""A benchmark takes up to a minute after the proof, and half a minute to arrive."""

PRIVATE_MEMBERS = ("n", "boot_id", "rejected", "suspects", "boot_before")
"""Members of the stored form that callers are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenGpu:
    """A GPU as a proof names it. None: unknown."""

    uuid: str | None
    model: str | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRecord:
    """The proof of attempt `n`, or its absence.

    `at`: when it was accepted. `rejected`: the VM is being ended for it, whatever arrives later. After a reboot for the
    GPUs, `boot_before` is the id of the boot whose proof failed, and `suspects` are the GPUs that failed in it.
    """

    n: int
    status: ProofStatus
    at: datetime | None = None
    via: ProofChannel | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[ProvenGpu, ...] = ()
    findings: tuple[Finding, ...] = ()
    boot_id: str | None = None
    rejected: bool = False
    boot_before: str | None = None
    suspects: tuple[str, ...] | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of its GPUs, as far as known."""
        return tuple(gpu.uuid for gpu in self.gpus if gpu.uuid is not None)

    def shows_boot(self, n: int) -> bool:
        """Whether it shows that the VM of attempt `n` has booted: its agent reached the API.

        The agent takes the proof after everything else that gpulease does at a boot. A VM that is rebooted for its GPUs
        has no proof until it has booted again.
        """
        return self.n == n and self.via is ProofChannel.NETWORK and self.status is not ProofStatus.PENDING

    def has_just_passed(self, n: int, now: datetime) -> bool:
        """Whether it is the passed proof of attempt `n`, and what the agent measures before the start-up script may arrive."""
        passed = self.n == n and self.status is ProofStatus.PASSED
        return passed and self.at is not None and now < self.at + _MEASURING

    def as_json(self) -> dict[str, Any]:
        """The stored form. Without `PRIVATE_MEMBERS` it is what callers are shown."""
        return {
            "n": self.n,
            "status": str(self.status),
            "at": None if self.at is None else rfc3339(self.at),
            "via": None if self.via is None else str(self.via),
            "driver_version": self.driver_version,
            "cuda_version": self.cuda_version,
            "gpus": [{"uuid": gpu.uuid, "model": gpu.model, "memory_mib": gpu.memory_mib} for gpu in self.gpus],
            "findings": [finding.as_json() for finding in self.findings],
            "boot_id": self.boot_id,
            "rejected": self.rejected,
            "boot_before": self.boot_before,
            "suspects": None if self.suspects is None else list(self.suspects),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(
            n=value["n"],
            status=ProofStatus(value["status"]),
            at=None if value["at"] is None else datetime.fromisoformat(value["at"]),
            via=None if value["via"] is None else ProofChannel(value["via"]),
            driver_version=value["driver_version"],
            cuda_version=value["cuda_version"],
            gpus=tuple(ProvenGpu(**gpu) for gpu in value["gpus"]),
            findings=tuple(Finding.from_json(finding) for finding in value["findings"]),
            boot_id=value["boot_id"],
            rejected=value["rejected"],
            boot_before=value["boot_before"],
            suspects=None if value["suspects"] is None else tuple(value["suspects"]),
        )


def awaited(n: int) -> ProofRecord:
    """The record of a ready VM that has sent no proof yet."""
    return ProofRecord(n=n, status=ProofStatus.PENDING)


def awaited_again(record: ProofRecord, suspects: tuple[str, ...]) -> ProofRecord:
    """The record of a VM that is rebooted, because its GPUs failed the proof in `record`."""
    boot_before = record.boot_id or record.boot_before
    return replace(record, status=ProofStatus.PENDING, boot_id=None, boot_before=boot_before, suspects=suspects)


def judged(
    proof: Proof, expected: ExpectedGpus, before: ProofRecord | None, *, n: int, via: ProofChannel, now: datetime
) -> ProofRecord | None:
    """The record of a proof that has arrived for attempt `n`. `before`: the lease's present record.

    None: the proof changes nothing. The first proof counts, since the tenant's script may forge later ones; after a
    reboot for the GPUs it is the first one of the new boot.
    """
    previous = before if before is not None and before.n == n else None
    if previous is not None:
        is_old = proof.boot_id is not None and proof.boot_id == previous.boot_before
        if previous.status is not ProofStatus.PENDING or previous.rejected or is_old:
            return None
    findings = judge(proof, expected)
    nothing_seen = not proof.gpus and not has_failed(findings)
    status = ProofStatus.NONE if nothing_seen else ProofStatus.PASSED
    return ProofRecord(
        n=n,
        status=ProofStatus.FAILED if has_failed(findings) else status,
        at=now,
        via=via,
        driver_version=proof.driver_version,
        cuda_version=proof.cuda_version,
        gpus=tuple(ProvenGpu(uuid=gpu.uuid, model=gpu.model, memory_mib=gpu.memory_mib) for gpu in proof.gpus),
        findings=findings,
        boot_id=proof.boot_id,
        boot_before=None if previous is None else previous.boot_before,
        suspects=None if previous is None else previous.suspects,
    )


def rejected(record: ProofRecord | None, extra: tuple[Finding, ...], *, n: int, now: datetime) -> ProofRecord:
    """The record of a VM that is ended for its proof, or for the lack of one. `extra`: findings to add."""
    own = record if record is not None and record.n == n else awaited(n)
    return replace(
        own, status=ProofStatus.FAILED, rejected=True, at=own.at or now, findings=worst_first([*own.findings, *extra])
    )
