"""The end of a lease or attempt: begin the release, close the confirmed dead attempt, finish or replace."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection

from app.db.events.events import NewEvent
from app.db.fleet import offering_stats, volumes
from app.db.leases import attempts, batches, idleness, launches, price_changes, proofs, spend_caps
from app.db.leases.transitions import NOW
from app.db.tenancy import quotas
from app.domain.billing import PriceChange, closed_cost
from app.domain.cool_off import after_end, cause_of_loss
from app.domain.error_kinds import ErrorKind
from app.domain.event_parts import EventReason
from app.domain.events import LeaseFailed, LeaseQueued, LeaseReleased, LeaseReleasing
from app.domain.idleness import LAST_NOTICE, Idleness
from app.domain.leases import AttemptState, Desired, LeaseState, final_state
from app.domain.lifecycle import did_not_start
from app.domain.rates import Rate
from app.domain.reasons import Reason, ReasonCode, without_obstacle
from workers.lifecycle.steps.context import StepContext, attempt_ended, change, must_hold, offering_key, reserve_minimum
from workers.lifecycle.steps.refusals import set_refused_aside
from workers.observation.idleness import evidence_of, idle_event
from workers.observation.vm_reasons import refusal
from workers.runtime.accounts import error_json


def begin_release(ctx: StepContext, reason: Reason) -> None:
    """The lease ends for `reason`. An offering that interrupted its VM goes into cool-off.

    One that never got it ready does so after VMs of two tenants.
    """
    event = NewEvent(LeaseReleasing(reason=EventReason.of(reason)))
    values = {
        "desired": str(Desired.END),
        "reason": reason.as_stored(),
        "release_requested_at": NOW,
    }
    with ctx.runtime.database.begin() as connection:
        where, bindings = _guards(ctx, reason)
        if reason.code is ReasonCode.IDLE:
            _tell_idle(connection, ctx, where, bindings)
        change(
            connection,
            ctx,
            event,
            to=LeaseState.RELEASING,
            should_run=True,
            where=where,
            bindings=bindings,
            values=values,
        )
        if ctx.lease.attempt is not None:
            _cool_off(connection, ctx, reason.code, None)


_STILL_OVER = {ReasonCode.EXPIRED: launches.EXPIRED, ReasonCode.SPEND_CAP: spend_caps.CAP_REACHED}
"""Guards for the reasons that an extension or a higher spend cap undoes."""
_STILL_TRUE = {
    ReasonCode.GPU_FAILED: proofs.STILL_FAILING,
    ReasonCode.TENANT_SUSPENDED: launches.TENANT_SUSPENDED,
}


def _guards(ctx: StepContext, reason: Reason) -> tuple[list[ColumnElement[bool]], Mapping[str, Any]]:
    """Guards that still find the reason true in the statement that ends the lease, and their parameters."""
    if _has_ended(ctx, reason):
        return [_STILL_OVER[reason.code]], {}
    if reason.code is ReasonCode.IDLE:
        return [idleness.STILL_IDLE], idleness.still_idle(_idleness(ctx), ctx.runtime.timing.sample)
    return [_STILL_TRUE[reason.code]] if reason.code in _STILL_TRUE else [], {}


def _idleness(ctx: StepContext) -> Idleness:
    assert ctx.lease.idleness is not None
    return ctx.lease.idleness


def _tell_idle(
    connection: Connection, ctx: StepContext, where: list[ColumnElement[bool]], bindings: Mapping[str, Any]
) -> None:
    """The event with what the idle time cost, and the samples that decided, which stay with the lease."""
    run = _idleness(ctx)
    event = NewEvent(idle_event(run, ctx.attempt.gpu_count, ctx.row.lease_rate_per_hour))
    values = idleness.noticed(run, LAST_NOTICE, evidence_of(connection, ctx.lease.id, run))
    change(connection, ctx, event, should_run=True, where=where, bindings=bindings, values=values)


def _has_ended(ctx: StepContext, reason: Reason) -> bool:
    """Whether the reason is that the lease's effective end is past. A spend cap also ends what finds no offering."""
    return reason.code in _STILL_OVER and ctx.lease.ends_at <= ctx.now


def close_attempt(ctx: StepContext) -> None:
    """Closes the attempt. Its billing ends at the provider's own time, even if leftover resources remain.

    Only what the provider names as its own doing concerns the offering: see `cause_of_loss`.
    A VM that the provider accepted and then did not create for lack of capacity counts as a refusal. A VM that did not
    start in time was ended by gpulease: its offering cools off, and the lease tries the next candidate.
    """
    attempt = ctx.attempt
    clean = attempt.clean or attempt.state is AttemptState.PLANNED
    lease_runs = ctx.lease.desired is Desired.RUN
    reason = ctx.row.attempt_vm_reason if lease_runs else None
    refused = refusal(reason) if reason is not None and ctx.lease.state is LeaseState.PROVISIONING else None
    state = AttemptState.DEAD if refused is None else AttemptState.REFUSED
    error = _why_closed(ctx, reason) if refused is None else error_json(refused)
    with ctx.writing_attempts() as connection:
        statement = attempts.end(attempt.id, ctx.claim_id, state, before=attempt.state, clean=clean, error=error)
        ended = must_hold(connection.execute(*statement))
        cost = _cost_not_closed(ended, connection.execute(*price_changes.of_attempt(attempt.id)))
        event = attempt_ended(attempt, state, error)
        change(connection, ctx, event, bindings={"cost": cost}, values=_closed_billing(ended))
        if lease_runs:
            reserve_minimum(connection, ctx)
            if refused is None:
                # the offering of a VM that was ended for its GPUs cools off already, where it should
                if ctx.lease.rejected_for is None:
                    cause = cause_of_loss(reason, did_not_start=did_not_start(ctx.lease, ctx.runtime.timing))
                    _cool_off(connection, ctx, cause, (reason or {}).get("code"))
            else:
                set_refused_aside(connection, ctx, refused)
    ctx.runtime.catalogue.forget()


def _closed_billing(ended: Any) -> dict[str, Any]:
    """The lease's columns about money after its attempt has ended. `ended`: the row of `attempts.end`."""
    return {
        "provider_gone_at": NOW,
        **spend_caps.UNBILLED,
        **spend_caps.CLOSED,
        "billing_ended_at": ended.billing_ended_at,
    }


def _cost_not_closed(ended: Any, changes: Iterable[Any]) -> Decimal:
    """USD of an ended attempt that `lease.cost_closed` does not contain yet. Negative where billing ended before a change."""
    rate = Rate(compute=ended.price_per_hour, disk=ended.disk_price_per_hour, address=ended.address_price_per_hour)
    changed = [PriceChange(starts_at=row.starts_at, price_per_hour=row.price_per_hour) for row in changes]
    exact = closed_cost(rate, ended.billing_started_at, ended.billing_ended_at, changed)
    return exact - Decimal(ended.cost_of_past_prices)


def _why_closed(ctx: StepContext, reason: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if ctx.lease.desired is Desired.RUN and did_not_start(ctx.lease, ctx.runtime.timing):
        message = f"the VM did not start within {ctx.runtime.timing.launch_timeout:.0f} s"
        return {"class": ErrorKind.LAUNCH_TIMEOUT, "code": None, "message": message}
    return _rejected(ctx) or _vm_ended(reason)


def _rejected(ctx: StepContext) -> Mapping[str, Any] | None:
    """The error of a VM that was ended for its GPUs."""
    cause, lease = ctx.lease.rejected_for, ctx.lease
    if lease.desired is not Desired.RUN or cause is None or lease.retreats:
        return None
    record = lease.proof if cause is ReasonCode.GPU_CHECK_FAILED else lease.gpu_health
    worst = record.findings[0] if record is not None and record.findings else None
    message = "the GPUs of the VM failed" if worst is None else worst.message
    return {"class": ErrorKind.GPU_CHECK_FAILED, "code": None if worst is None else worst.code, "message": message}


def _cool_off(connection: Connection, ctx: StepContext, cause: ReasonCode | None, code: str | None) -> None:
    """Sets aside the offering of a VM that did not start, was not ready in time, or that the provider took back."""
    pause = after_end(cause, ctx.runtime.cool_offs)
    if pause is not None:
        key = offering_key(ctx.attempt)
        connection.execute(*offering_stats.cool_off(key, pause, code=code, tenant_id=ctx.lease.tenant_id))


def _vm_ended(reason: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if reason is None:
        return None
    return {"class": ErrorKind.VM_ENDED, "code": reason.get("code"), "message": reason.get("message")}


_WHY_REPLACED: Mapping[ReasonCode | None, Reason] = {
    None: Reason(ReasonCode.INTERRUPTED, "the provider took the spot VM back; a replacement is being looked for"),
    ReasonCode.GPU_CHECK_FAILED: Reason(
        ReasonCode.GPU_CHECK_FAILED, "the GPUs of the VM failed their check; another VM is being looked for"
    ),
    ReasonCode.GPU_FAILED: Reason(ReasonCode.GPU_FAILED, "a GPU failed; a replacement is being looked for"),
    ReasonCode.GROUP_POOL_FAILED: Reason(
        ReasonCode.GROUP_POOL_FAILED, "the group did not form in this pool; it tries another one"
    ),
}
"""By the reason for which gpulease ended the VM itself."""


_WITHOUT_POOL = {"group_pool": None, "group_retreat": False}
"""A member waits until its group lets it launch again."""


def requeue(ctx: StepContext) -> None:
    """The old VM is confirmed dead: the lease returns to the queue for another one and keeps its quota.

    A VM that failed its check before the lease was active is one try of the present pass over the offerings. Otherwise a
    new pass begins.
    """
    reason = _WHY_REPLACED[ctx.lease.rejected_for]
    event = NewEvent(LeaseQueued(name=None, reason=EventReason.of(reason)))
    new_pass = {"pass_started_at": None, "wait_until": ctx.now + ctx.lease.waits}
    values = {
        "reason": reason.as_json(),
        **({} if reason.code is ReasonCode.GPU_CHECK_FAILED else new_pass),
        **_WITHOUT_POOL,
        "placement": None,
        "connection": None,
        "interruption": None,
        "running_at": None,
        "launched_at": None,
    }
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=LeaseState.QUEUED, should_run=True, values=values)


def finish(ctx: StepContext) -> None:
    """Moves the lease to its terminal state. Its quota is released once, and its secrets are deleted."""
    state = final_state(ctx.lease)
    reason = without_obstacle(ctx.lease.reason) if ctx.lease.reason else None
    data = LeaseFailed if state is LeaseState.FAILED else LeaseReleased
    event = NewEvent(data(reason=EventReason.of(reason) if reason else None))
    values = {
        "reason": reason.as_stored() if reason else None,
        "ended_at": NOW,
        "next_due": None,
        **spend_caps.UNBILLED,
    }
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=state, values=values)
        _forget(connection, ctx)


def _forget(connection: Connection, ctx: StepContext) -> None:
    if ctx.lease.request.volumes:
        connection.execute(*volumes.release(ctx.lease.id))
    connection.execute(*quotas.release(ctx.lease.id))
    connection.execute(*launches.forget_script(ctx.lease.id))
    connection.execute(*launches.forget_params(ctx.lease.id))
    if ctx.row.attempt_batch_id is not None:
        connection.execute(*batches.forget_params([ctx.row.attempt_batch_id]))
