"""Proofs of GPUs, as the API stores those that agents send."""

from typing import Any

from app.db.leases import proofs as statements
from app.domain.gpus.checks import ExpectedGpus
from app.domain.gpus.findings import ProofChannel
from app.domain.gpus.proofs import ProofRecord, judged
from app.domain.gpus.reports import parse_proof
from app.domain.ids import LeaseId
from tests.workers.fleet import Fleet

EXPECTED = ExpectedGpus(model="A10G", count=1, memory_gib=24)
GOOD: dict[str, Any] = {"uuid": "GPU-good", "model": "NVIDIA A10G", "memory_mib": 23028, "recovery_action": "none"}
BROKEN = {**GOOD, "uuid": "GPU-broken", "remap_failed": True}
TO_RESET = {**GOOD, "recovery_action": "reset"}


def report(fleet: Fleet, *gpus: dict[str, Any], boot_id: str = "boot-1") -> dict[str, Any]:
    return {"version": 1, "agent": "1.0", "at": fleet.now().timestamp(), "boot_id": boot_id, "gpus": list(gpus)}


def prove(fleet: Fleet, lease_id: LeaseId, *gpus: dict[str, Any], boot_id: str = "boot-1") -> None:
    """As the API stores a proof."""
    row = fleet.lease(lease_id)
    before = None if row.proof is None else ProofRecord.from_json(row.proof)
    proof = parse_proof(report(fleet, *gpus, boot_id=boot_id))
    n = row.attempts_count
    record = judged(proof, EXPECTED, before, n=n, via=ProofChannel.NETWORK, now=fleet.now())
    assert record is not None
    assert fleet.runtime.database.first(statements.accept(lease_id, record, row.proof)) is not None


def drive_to_wait(fleet: Fleet, lease_id: LeaseId, n: int = 1) -> None:
    """Until attempt `n` is waited for to prove its GPUs."""
    fleet.drive(lambda: any(one.n == n and one.proof_awaited_at is not None for one in fleet.attempts(lease_id)))
