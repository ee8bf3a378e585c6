"""Every combination of facts that a lease can be in, as the protocol makes them."""

from collections.abc import Iterator
from datetime import datetime
from itertools import product
from typing import Any

from app.domain.gpus.findings import Finding, HealthStatus, ProofStatus, Severity
from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import ProofRecord
from app.domain.lease_requests import LeaseRequest, OnGpuFailure, OnInterruption, ProofMode
from app.domain.leases import Attempt, AttemptState, Lease, LeaseState, VmState
from app.domain.volumes import VolumeMount
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease

A, S = AttemptState, LeaseState
OF_STATE: dict[LeaseState, tuple[AttemptState | None, ...]] = {
    S.QUEUED: (None, A.REFUSED, A.DEAD),
    S.PROVISIONING: tuple(A),
    S.BOOTING: (A.KNOWN, A.DEAD),
    S.ACTIVE: (A.KNOWN, A.DEAD),
    S.RELEASING: (None, *A),
    S.RELEASED: (None, A.REFUSED, A.DEAD),
    S.FAILED: (None, A.REFUSED, A.DEAD),
}
RETRIES: tuple[datetime | None, ...] = (None, ago(1), NOW, ahead(5), ahead(7200))
AGES = (0.0, 300.0, 100_000.0)


FATAL = Finding("gpu_missing", Severity.FATAL, None, "7 of 8 GPUs are visible")
NEEDS_REBOOT = Finding("xid_48", Severity.REBOOT, "GPU-1", "Xid 48: double-bit ECC error")
PROOFS = (
    None,
    ProofRecord(n=1, status=ProofStatus.PENDING),
    ProofRecord(n=1, status=ProofStatus.PASSED, at=ago(1)),
    ProofRecord(n=1, status=ProofStatus.NONE, at=ago(1)),
    ProofRecord(n=1, status=ProofStatus.FAILED, at=ago(1), findings=(FATAL,)),
    ProofRecord(n=1, status=ProofStatus.FAILED, at=ago(1), findings=(NEEDS_REBOOT,)),
    ProofRecord(n=1, status=ProofStatus.FAILED, at=ago(1), findings=(FATAL,), rejected=True),
    ProofRecord(n=0, status=ProofStatus.FAILED, at=ago(1), findings=(FATAL,), rejected=True),
)
HEALTHS = (
    None,
    HealthRecord(n=1, status=HealthStatus.HEALTHY, since=ago(9)),
    HealthRecord(n=1, status=HealthStatus.FAILING, since=ago(9), findings=(NEEDS_REBOOT,)),
    HealthRecord(n=1, status=HealthStatus.FAILING, since=ago(9), findings=(FATAL,), rejected=True),
    HealthRecord(n=0, status=HealthStatus.FAILING, since=ago(9), findings=(FATAL,), rejected=True),
)


def leases() -> Iterator[Lease]:
    """Every lease state with every attempt it can have, expired or not, replaced or ended at an interruption."""
    for state, states in OF_STATE.items():
        attempts = [one for attempt_state in states for one in attempts_in(attempt_state)]
        ages = (0.0, 100_000.0) if state is S.BOOTING else (0.0,)
        wishes = tuple(OnInterruption) if state in (S.BOOTING, S.ACTIVE) else (OnInterruption.END,)
        choices = product(attempts, (NOW, ahead(60)), wishes, ages, _tags(state))
        for one, expires_at, on_interruption, age, tag in choices:
            yield lease(
                state,
                attempt=one,
                expires_at=expires_at,
                on_interruption=on_interruption,
                running_at=ago(age) if state in (S.BOOTING, S.ACTIVE) else None,
                ready_at=ago(age) if state is S.ACTIVE else None,
                **tag,
                unclean_attempts=1 if one is not None and not one.live and not one.clean else 0,
            )


def gpu_leases() -> Iterator[Lease]:
    """A VM with an agent, before and after its lease is active: every proof, health and policy."""
    vm_states = (VmState.RUNNING, VmState.ENDING, VmState.GONE, VmState.ABSENT)
    hosts = list(product(vm_states, (None, ahead(7200)), (None, ago(5), ago(901)), (None, ago(1))))
    waits = product(ProofMode, PROOFS, (None, ago(15), ago(61)), (0, 3))
    for (wish, proof, awaited_at, tries), host in product(list(waits), hosts):
        one = _with_agent(*host, proof_awaited_at=awaited_at, console_proof_tries=tries)
        request = LeaseRequest(ttl_seconds=3600, proof=wish)
        yield lease(S.BOOTING, attempt=one, running_at=ago(950), request=request, proof=proof)
    for policy, health, host in product(OnGpuFailure, HEALTHS, hosts):
        request = LeaseRequest(ttl_seconds=3600, on_gpu_failure=policy)
        times = {"running_at": ago(2000), "ready_at": ago(1000)}
        yield lease(S.ACTIVE, attempt=_with_agent(*host), request=request, gpu_health=health, **times)


def volume_leases() -> Iterator[Lease]:
    """A VM that boots, with its volumes and without, ready and not, in every state and at every age."""
    request = LeaseRequest(ttl_seconds=3600, volumes=(VolumeMount("data", "/data"),))
    facts = product(VmState, (True, False), (None, ago(1)), RETRIES, (0.0, 100_000.0), (None, NOW))
    for vm_state, ready, attached_at, retry_at, age, watched_at in facts:
        known = attempt(
            A.KNOWN,
            instance_id="i-1",
            vm_state=vm_state,
            ready=ready,
            known_at=ago(age),
            watched_at=watched_at,
            retry_at=retry_at,
            volumes_attached_at=attached_at,
        )
        yield lease(S.BOOTING, attempt=known, running_at=ago(age), request=request)


def _with_agent(
    vm_state: VmState, retry_at: datetime | None, rebooted_at: datetime | None, terminated: datetime | None, **more: Any
) -> Attempt:
    return attempt(
        A.KNOWN,
        instance_id="i-1",
        vm_state=vm_state,
        ready=True,
        known_at=ago(1000),
        watched_at=NOW,
        retry_at=retry_at,
        gpu_rebooted_at=rebooted_at,
        terminate_sent_at=terminated,
        terminate_tries=1 if terminated is not None else 0,
        has_agent=True,
        **more,
    )


def _tags(state: LeaseState) -> tuple[dict[str, Any], ...]:
    """All well, the deadline tag behind, a reboot asked for."""
    if state not in (S.PROVISIONING, S.BOOTING, S.ACTIVE):
        return ({},)
    return ({}, {"deadline_applied": None}, {"reboot_requested_at": ago(1)})


def attempts_in(state: AttemptState | None) -> Iterator[Attempt | None]:
    match state:
        case None:
            yield None
        case A.KNOWN:
            yield from _known()
        case A.SENT | A.SETTLING:
            yield from _unknown(state)
        case A.PLANNED:
            yield from (attempt(state, retry_at=at) for at in RETRIES)
        case _:
            yield from (attempt(state, clean=clean) for clean in (False, True))


def _unknown(state: AttemptState) -> Iterator[Attempt]:
    for age, retry_at, empty in product(AGES, RETRIES, (0, 2)):
        times: dict[str, Any] = {"last_sent_at": ago(age), "unknown_since": ago(age), "retry_at": retry_at}
        yield attempt(state, **times, empty_listings=empty, last_empty_listing_at=ago(age / 2) if empty else None)


def _known() -> Iterator[Attempt]:
    flags = (False, True)
    for vm_state, retry_at, terminated, age in product(VmState, (None, ahead(7200)), (None, 1.0, 400.0), AGES):
        reasons = (None, {"interrupted": True, "code": "x", "message": "y"})
        stops = ({"confirmed": True}, {"seen_at": NOW.isoformat()}) if vm_state is VmState.STOPPED else ()
        for ready, clean, reason in product(flags, flags, (*reasons, *stops)):
            yield attempt(
                A.KNOWN,
                instance_id="i-1",
                vm_state=vm_state,
                vm_reason=reason,
                ready=ready,
                clean=clean,
                known_at=ago(age),
                last_sent_at=ago(age),
                unknown_since=ago(age),
                retry_at=retry_at,
                terminate_sent_at=ago(terminated) if terminated is not None else None,
                terminate_tries=1 if terminated is not None else 0,
            )


__all__ = ["NOW", "TIMING", "gpu_leases", "leases"]
