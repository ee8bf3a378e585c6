"""A VM whose GPUs fail: it is rebooted once, or ended so that the lease gets another one."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from app.db.events.events import NewEvent
from app.db.fleet import bad_gpus, offering_stats
from app.db.leases import attempts, proofs
from app.domain.cool_off import after_gpu_check
from app.domain.event_parts import EventFinding
from app.domain.events import AttemptGpuCheckFailed, LeaseRebooted
from app.domain.gpus.checks import bad_uuids
from app.domain.gpus.findings import Finding
from app.domain.gpus.proofs import ProofRecord, awaited_again, rejected
from app.domain.leases import LeaseState
from app.domain.lifecycle import Rest
from app.domain.reasons import ReasonCode
from workers.lifecycle.steps.context import StepContext, change, event_offering, must_hold, offering_key
from workers.providers.errors import NotFound, ProviderError, Refused, Throttled
from workers.runtime.accounts import error_json

_NO_TOKEN_PAUSE = timedelta(seconds=1)
_FAILED_PAUSE = 5.0
_PATIENCE = timedelta(minutes=5)


def reboot_for_gpus(ctx: StepContext) -> Rest | None:
    """Reboots the VM. After a lost answer the step sends it again: two reboots in a row do no harm.

    A VM that the provider does not reboot is ended before the lease is active. An active lease keeps its VM then.
    """
    attempt, runtime = ctx.attempt, ctx.runtime
    if not runtime.rate_limiter.take(ctx.provider, ctx.bucket("write")):
        return Rest(ctx.now + _NO_TOKEN_PAUSE)
    try:
        ctx.provider.reboot(attempt.region, [str(attempt.instance_id)]).require(str(attempt.instance_id))
    except ProviderError as error:
        _not_rebooted(ctx, runtime.accounts.verdict(attempt.account, error))
    else:
        _rebooted(ctx, NewEvent(LeaseRebooted(n=attempt.n)))
    return None


def _rebooted(ctx: StepContext, event: NewEvent) -> None:
    values: dict[str, Any] = {}
    record = _own_proof(ctx)
    if ctx.lease.state is LeaseState.BOOTING and record is not None:
        values["proof"] = awaited_again(record, tuple(bad_uuids(record.findings, record.uuids, _count(ctx)))).as_json()
    with ctx.writing_attempts() as connection:
        must_hold(connection.execute(proofs.rebooted(ctx.attempt.id, ctx.attempt.token, claim_id=ctx.claim_id)))
        change(connection, ctx, event, should_run=True, values=values)


def _not_rebooted(ctx: StepContext, error: ProviderError) -> None:
    attempt, runtime = ctx.attempt, ctx.runtime
    pause = _FAILED_PAUSE
    if isinstance(error, Throttled):
        pause = runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("write"), error)
    since = _failing_since(ctx)
    if not isinstance(error, Refused | NotFound) and (since is None or ctx.now < since + _PATIENCE):
        later = attempts.retry_later(attempt.id, attempt.token, pause, error_json(error), claim_id=ctx.claim_id)
        runtime.database.run(later)
    elif ctx.lease.state is LeaseState.BOOTING:
        reject_vm(ctx, ReasonCode.GPU_CHECK_FAILED, ())
    else:
        with runtime.database.begin() as connection:
            must_hold(connection.execute(proofs.rebooted(attempt.id, attempt.token, claim_id=ctx.claim_id)))


def _failing_since(ctx: StepContext) -> datetime | None:
    if ctx.lease.state is LeaseState.ACTIVE:
        return None if ctx.lease.gpu_health is None else ctx.lease.gpu_health.since
    return None if ctx.lease.proof is None else ctx.lease.proof.at


def reject_vm(ctx: StepContext, cause: ReasonCode, extra: tuple[Finding, ...]) -> None:
    """Decides that the VM ends, before anything is sent: a report that arrives later changes nothing.

    A proof is the word of one tenant: a login before the agent runs can forge it. From a proof with the account's own image
    the GPUs are remembered and the offering is suspected. Both concern this tenant alone until a second tenant's VM shows
    the same. A missing proof, a tenant's image and an active lease concern the lease alone.
    """
    if cause is ReasonCode.GPU_FAILED:
        _reject_active(ctx)
        return
    record = rejected(ctx.lease.proof, extra, n=ctx.attempt.n, now=ctx.now)
    with ctx.runtime.database.begin() as connection:
        change(
            connection,
            ctx,
            NewEvent(_event(ctx, record.findings)),
            should_run=True,
            where=[proofs.SAME_PROOF],
            bindings={"before": ctx.row.lease_proof},
            values={"proof": record.as_json()},
        )
        if ctx.lease.request.image is None and not extra:
            pause = after_gpu_check(ctx.runtime.cool_offs)
            code = record.findings[0].code if record.findings else None
            tenant_id = ctx.lease.tenant_id
            connection.execute(
                *offering_stats.cool_off(offering_key(ctx.attempt), pause, code=code, tenant_id=tenant_id)
            )
            codes = _bad(ctx, record)
            if codes:
                connection.execute(bad_gpus.remember(_place(ctx), codes))
    ctx.runtime.catalogue.forget()


def _reject_active(ctx: StepContext) -> None:
    health = ctx.lease.gpu_health
    assert health is not None  # `decide` has found it failing
    with ctx.runtime.database.begin() as connection:
        change(
            connection,
            ctx,
            NewEvent(_event(ctx, health.findings)),
            should_run=True,
            where=[proofs.STILL_FAILING],
            values={"gpu_health": replace(health, rejected=True).as_json()},
        )


def _event(ctx: StepContext, findings: tuple[Finding, ...]) -> AttemptGpuCheckFailed:
    attempt = ctx.attempt
    return AttemptGpuCheckFailed(
        n=attempt.n,
        instance_id=attempt.instance_id,
        offering=event_offering(attempt),
        findings=tuple(EventFinding.of(finding) for finding in findings),
    )


def _bad(ctx: StepContext, record: ProofRecord) -> dict[str, str]:
    """GPUs to remember. After a reboot only those that had failed before it: the tenant's script has run since."""
    bad = bad_uuids(record.findings, record.uuids, _count(ctx))
    return {uuid: code for uuid, code in bad.items() if record.suspects is None or uuid in record.suspects}


def _place(ctx: StepContext) -> dict[str, str]:
    attempt = ctx.attempt
    return {
        "tenant_id": ctx.lease.tenant_id,
        "provider": attempt.provider,
        "account": attempt.account,
        "region": attempt.region,
        "zone": attempt.zone,
        "instance_type": attempt.instance_type,
    }


def _own_proof(ctx: StepContext) -> ProofRecord | None:
    proof = ctx.lease.proof
    return proof if proof is not None and proof.n == ctx.attempt.n else None


def _count(ctx: StepContext) -> int:
    return ctx.attempt.gpu_count
