"""What the GPUs of a VM decide about its lease: the proof before `active`, and failures after it. Pure.

`decide` in `lifecycle` asks here once a VM is ready.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.gpus.checks import is_fatal, no_proof
from app.domain.gpus.findings import Finding, HealthStatus, ProofStatus
from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import awaited
from app.domain.lease_requests import OnGpuFailure, ProofMode
from app.domain.leases import Attempt, Lease
from app.domain.reasons import ReasonCode

_CONSOLE_READS = (1 / 6, 1 / 3, 2 / 3)
"""When the console is read, as shares of the longest wait for a proof: after 10, 20 and 40 s of 60."""


@dataclass(frozen=True, slots=True)
class AwaitProof:
    """Record since when the ready VM is waited for to prove its GPUs."""


@dataclass(frozen=True, slots=True)
class ReadConsole:
    """Look for the proof on the VM's serial console."""


@dataclass(frozen=True, slots=True)
class GiveUpProof:
    """The VM sent no proof in time, and the lease does without one."""


@dataclass(frozen=True, slots=True)
class RebootForGpus:
    """Reboot the VM, once: its GPUs need a reset."""


@dataclass(frozen=True, slots=True)
class RejectVm:
    """The VM will be ended for its GPUs, and the lease gets another one. `extra`: findings besides the stored ones."""

    cause: ReasonCode
    extra: tuple[Finding, ...] = ()


GpuStep = AwaitProof | ReadConsole | GiveUpProof | RebootForGpus | RejectVm


def proof_step(
    lease: Lease, attempt: Attempt, now: datetime, *, proof_seconds: float, boot_seconds: float
) -> GpuStep | datetime | None:
    """The next step of a ready VM before its lease is active. A time: rest until then. None: the lease may be active."""
    mode = lease.request.proof
    if not attempt.has_agent or mode is ProofMode.OFF:
        return None
    record = lease.proof if lease.proof is not None and lease.proof.n == attempt.n else awaited(attempt.n)
    match record.status:
        case ProofStatus.PENDING:
            return _awaiting(attempt, mode, now, proof_seconds=proof_seconds, boot_seconds=boot_seconds)
        case ProofStatus.FAILED:
            once = attempt.gpu_rebooted_at is None and not is_fatal(record.findings)
            return _call(RebootForGpus(), attempt, now) if once else RejectVm(ReasonCode.GPU_CHECK_FAILED)
        case ProofStatus.NONE if mode is ProofMode.REQUIRED:
            return _reject_silent()
    return None


def _awaiting(
    attempt: Attempt, mode: ProofMode, now: datetime, *, proof_seconds: float, boot_seconds: float
) -> GpuStep | datetime:
    """After a reboot for the GPUs the VM has as long as for a boot."""
    if attempt.proof_awaited_at is None:
        return AwaitProof()
    longest = proof_seconds if attempt.gpu_rebooted_at is None else boot_seconds
    since = attempt.gpu_rebooted_at or attempt.proof_awaited_at
    over = since + timedelta(seconds=longest)
    if over <= now:
        return _overdue(attempt, mode)
    return _wait(attempt, now, [*_reads(attempt, since, longest), over])


def _overdue(attempt: Attempt, mode: ProofMode) -> GpuStep:
    """A VM that was rebooted failed its proof before, and proved nothing since."""
    if attempt.gpu_rebooted_at is not None:
        return RejectVm(ReasonCode.GPU_CHECK_FAILED)
    return _reject_silent() if mode is ProofMode.REQUIRED else GiveUpProof()


def _reject_silent() -> RejectVm:
    return RejectVm(ReasonCode.GPU_CHECK_FAILED, (no_proof(),))


def _reads(attempt: Attempt, since: datetime, longest: float) -> Iterator[datetime]:
    """When the console is still to be read."""
    for share in _CONSOLE_READS[attempt.console_proof_tries :]:
        yield since + timedelta(seconds=share * longest)


def _wait(attempt: Attempt, now: datetime, due: list[datetime]) -> GpuStep | datetime:
    """`due`: reads of the console in order, and the end of the wait."""
    read_is_due = len(due) > 1 and due[0] <= now
    if not read_is_due:
        return due[0]
    step = _call(ReadConsole(), attempt, now)
    return min(step, due[-1]) if isinstance(step, datetime) else step


def _call(step: GpuStep, attempt: Attempt, now: datetime) -> GpuStep | datetime:
    """A step that calls the provider, or the time before which it must not be called."""
    return step if attempt.retry_at is None or attempt.retry_at <= now else attempt.retry_at


# --- after active -----------------------------------------------------------------------------------------------


def failure_step(lease: Lease, attempt: Attempt, now: datetime) -> GpuStep | datetime | None:
    """The next step of an active lease whose GPUs fail. None: nothing to do."""
    if failing_health(lease) is None:
        return None
    match lease.request.on_gpu_failure:
        case OnGpuFailure.REPLACE:
            return RejectVm(ReasonCode.GPU_FAILED)
        case OnGpuFailure.REBOOT if not _was_rebooted(lease, attempt):
            return _call(RebootForGpus(), attempt, now)
    return None


def failing_health(lease: Lease) -> HealthRecord | None:
    """The health of the lease's newest VM, if its GPUs fail."""
    health, attempt = lease.gpu_health, lease.attempt
    own = health is not None and attempt is not None and health.n == attempt.n
    return health if own and health is not None and health.status is HealthStatus.FAILING else None


def _was_rebooted(lease: Lease, attempt: Attempt) -> bool:
    """Whether the VM was rebooted for its GPUs since the lease is active."""
    rebooted_at, ready_at = attempt.gpu_rebooted_at, lease.ready_at
    return rebooted_at is not None and (ready_at is None or rebooted_at >= ready_at)
