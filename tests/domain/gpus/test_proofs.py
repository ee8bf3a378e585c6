"""Records of proofs and of health: what a report changes, and what it no longer can."""

from dataclasses import replace
from typing import Any

import pytest

from app.domain.gpus.checks import ExpectedGpus
from app.domain.gpus.findings import Finding, HealthStatus, ProofChannel, ProofStatus, Severity
from app.domain.gpus.health import HealthRecord, next_health
from app.domain.gpus.proofs import (
    PRIVATE_MEMBERS,
    ProofRecord,
    ProvenGpu,
    awaited,
    awaited_again,
    judged,
    rejected,
)
from app.domain.gpus.reports import GpuReport, GpuState, Proof, RecoveryAction, Xid
from tests.domain.samples import NOW, ahead

EXPECTED = ExpectedGpus(model="A10G", count=1, memory_gib=24)
GOOD = GpuState(uuid="GPU-1", model="NVIDIA A10G", memory_mib=23028)
BAD = replace(GOOD, remap_failed=True)
NEEDS_RESET = replace(GOOD, recovery_action=RecoveryAction.RESET)


def proof(*gpus: GpuState, boot_id: str | None = "boot-1") -> Proof:
    return Proof(agent="1.0", at=NOW, gpus=gpus, boot_id=boot_id, driver_version="570.1")


def judge(one: Proof, before: ProofRecord | None, *, n: int = 1, **changes: Any) -> ProofRecord | None:
    expected = replace(EXPECTED, **changes)
    return judged(one, expected, before, n=n, via=ProofChannel.NETWORK, now=NOW)


def test_the_first_proof_counts() -> None:
    record = judge(proof(GOOD), awaited(1))
    assert record == ProofRecord(
        n=1,
        status=ProofStatus.PASSED,
        at=NOW,
        via=ProofChannel.NETWORK,
        driver_version="570.1",
        gpus=(ProvenGpu(uuid="GPU-1", model="NVIDIA A10G", memory_mib=23028),),
        boot_id="boot-1",
    )


def test_a_broken_gpu_fails_the_proof() -> None:
    record = judge(proof(BAD), None)
    assert record is not None
    assert record.status is ProofStatus.FAILED


@pytest.mark.parametrize("status", [ProofStatus.PASSED, ProofStatus.FAILED, ProofStatus.NONE])
def test_a_later_proof_changes_nothing(status: ProofStatus) -> None:
    assert judge(proof(GOOD, boot_id="boot-2"), ProofRecord(n=1, status=status)) is None


def test_a_proof_that_comes_after_the_decision_changes_nothing() -> None:
    assert judge(proof(GOOD), replace(awaited(1), rejected=True)) is None


def test_the_record_of_an_earlier_attempt_does_not_matter() -> None:
    assert judge(proof(GOOD), ProofRecord(n=1, status=ProofStatus.FAILED, rejected=True), n=2) is not None


def test_after_a_reboot_only_the_new_boot_proves() -> None:
    first = judge(proof(NEEDS_RESET), awaited(1))
    assert first is not None
    again = awaited_again(first, ("GPU-1",))
    assert judge(proof(NEEDS_RESET), again) is None
    second = judge(proof(GOOD, boot_id="boot-2"), again)
    assert second is not None
    assert (second.status, second.suspects) == (ProofStatus.PASSED, ("GPU-1",))


def test_no_driver_is_no_evidence_in_a_tenants_own_image_and_a_failure_in_the_accounts() -> None:
    own = judge(proof(), None, own_image=True)
    default = judge(proof(), None)
    assert own is not None
    assert default is not None
    assert (own.status, default.status) == (ProofStatus.NONE, ProofStatus.FAILED)


def test_a_rejected_record_has_failed_with_what_was_found_and_what_is_added() -> None:
    silent = Finding("no_proof", Severity.FATAL, None, "none came")
    record = rejected(None, (silent,), n=3, now=NOW)
    assert (record.n, record.status, record.rejected, record.at, record.findings) == (
        3,
        ProofStatus.FAILED,
        True,
        NOW,
        (silent,),
    )


def test_a_record_is_read_as_it_was_stored() -> None:
    first = judge(proof(NEEDS_RESET), awaited(1))
    assert first is not None
    for record in (awaited(1), first, awaited_again(first, ("GPU-1",)), rejected(first, (), n=1, now=NOW)):
        assert ProofRecord.from_json(record.as_json()) == record


def test_callers_are_shown_exactly_the_public_members() -> None:
    public = awaited(1).as_json().keys() - set(PRIVATE_MEMBERS)
    assert public == {"status", "at", "via", "driver_version", "cuda_version", "gpus", "findings"}


# --- health -----------------------------------------------------------------------------------------------------


def health(
    *gpus: GpuState, before: HealthRecord | None = None, xids: tuple[Xid, ...] = (), at: float = 0
) -> HealthRecord | None:
    return next_health(GpuReport(gpus=gpus, xids=xids), EXPECTED, before, n=1, now=ahead(at))


def test_the_first_report_sets_the_health() -> None:
    assert health(GOOD) == HealthRecord(n=1, status=HealthStatus.HEALTHY, since=NOW)


def test_the_same_health_is_not_written_again() -> None:
    assert health(GOOD, before=health(GOOD), at=60) is None


def test_a_change_of_the_findings_keeps_since_while_the_status_stays() -> None:
    first = health(BAD)
    second = health(BAD, before=first, xids=(Xid(code=79),), at=60)
    assert first is not None
    assert second is not None
    assert (second.status, second.since) == (HealthStatus.FAILING, NOW)
    assert second.findings != first.findings


def test_a_change_of_the_status_begins_anew() -> None:
    second = health(GOOD, before=health(BAD), at=60)
    assert second is not None
    assert (second.status, second.since) == (HealthStatus.HEALTHY, ahead(60))


def test_a_report_without_gpus_is_unknown() -> None:
    record = health()
    assert record is not None
    assert record.status is HealthStatus.UNKNOWN


def test_the_health_of_another_attempt_does_not_matter() -> None:
    other = HealthRecord(n=0, status=HealthStatus.FAILING, since=NOW, rejected=True)
    record = health(GOOD, before=other, at=60)
    assert record is not None
    assert (record.n, record.since) == (1, ahead(60))


def test_a_vm_that_is_being_replaced_stays_so() -> None:
    gone = HealthRecord(n=1, status=HealthStatus.FAILING, since=NOW, rejected=True)
    assert health(GOOD, before=gone) is None


def test_a_health_is_read_as_it_was_stored() -> None:
    record = health(BAD)
    assert record is not None
    assert HealthRecord.from_json(record.as_json()) == record


REPORTED = ProofRecord(n=2, status=ProofStatus.PASSED, at=NOW, via=ProofChannel.NETWORK, boot_id="boot-1")


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (REPORTED, True),
        (replace(REPORTED, status=ProofStatus.FAILED), True),
        (replace(REPORTED, status=ProofStatus.NONE), True),
        # the console is read of VMs that are ready already
        (replace(REPORTED, via=ProofChannel.CONSOLE), False),
        # nothing has arrived
        (awaited(2), False),
        (ProofRecord(n=2, status=ProofStatus.NONE, at=NOW), False),
        # the VM of an earlier attempt
        (replace(REPORTED, n=1), False),
        # the VM boots again
        (awaited_again(REPORTED, ("GPU-1",)), False),
    ],
)
def test_a_proof_over_the_network_shows_that_its_vm_has_booted(record: ProofRecord, *, shown: bool) -> None:
    assert record.shows_boot(2) is shown
