"""The way out: begin to end, terminate, close the attempt once its death is confirmed, finish or replace."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Update

from app.db.core.prepared import Bound
from app.db.events.events import NewEvent
from app.db.fleet import offering_stats
from app.db.leases import attempts, launches, releases
from app.db.leases.transitions import NOW
from app.db.operations.brakes import IS_HELD
from app.db.tenancy import quotas
from app.domain.billing import closed_cost
from app.domain.cool_off import after_end
from app.domain.error_kinds import ErrorKind
from app.domain.leases import AttemptState, Desired, LeaseState, final_state
from app.domain.lifecycle import Rest
from app.domain.provider_messages import public_error
from app.domain.reasons import Reason, ReasonCode, vm_obstacle, without_obstacle
from workers.accounts import error_json
from workers.lifecycle.steps.console import keep_console
from workers.lifecycle.steps.context import StepContext, change, must_hold, offering_json, offering_key, reserve_minimum
from workers.lifecycle.steps.send import cool_off
from workers.observation.vm_reasons import refusal
from workers.providers.errors import CredentialsRejected, ProviderError, Throttled

_NO_TOKEN_PAUSE = timedelta(seconds=1)
_FAILED_PAUSE = 5.0
_REFUSED_SHARE = 0.25


def begin_release(ctx: StepContext, reason: Reason) -> None:
    """The lease ends for `reason`. An offering that took its VM back or never got it ready is set aside."""
    event = NewEvent(type="lease.releasing", data={"reason": reason.as_json()})
    values = {
        "desired": str(Desired.END),
        "reason": reason.as_stored(),
        "release_requested_at": NOW,
    }
    with ctx.runtime.database.begin() as connection:
        expired = [launches.EXPIRED] if reason.code is ReasonCode.EXPIRED else []
        change(connection, ctx, event, to=LeaseState.RELEASING, wanted=True, where=expired, values=values)
        pause = after_end(reason.code, ctx.runtime.cool_offs)
        if ctx.lease.attempt is not None and pause is not None:
            connection.execute(*offering_stats.cool_off(offering_key(ctx.attempt), pause, code=None))


def terminate(ctx: StepContext) -> Rest | None:
    """Asks the provider to end the VM. Never gives up: the next try comes after a growing pause.

    Reading the console takes time: after it the lease is loaded again. A hold that was set meanwhile keeps the VM.
    """
    attempt, runtime = ctx.attempt, ctx.runtime
    if keep_console(ctx):
        return None
    if not runtime.pacer.take(ctx.provider, ctx.bucket("terminate")):
        return Rest(ctx.now + _NO_TOKEN_PAUSE)
    if runtime.stopping.is_set():
        return Rest(ctx.now)
    if runtime.database.first(IS_HELD) is not None:
        return None
    try:
        ended = ctx.provider.terminate(attempt.region, [str(attempt.instance_id)])
        ended.require(str(attempt.instance_id))
    except Throttled as error:
        _again(ctx, runtime.pacer.throttled(ctx.provider, ctx.bucket("terminate"), error), error)
    except ProviderError as error:
        _not_ended(ctx, error)
    else:
        runtime.database.run(launches.terminate_sent(attempt.id, attempt.token, known=bool(ended.done)))
        ctx.hurry_watch()
    return None


def _not_ended(ctx: StepContext, error: ProviderError) -> None:
    """The lease says that the provider refuses. The pauses grow with the time that it has been doing so."""
    runtime = ctx.runtime
    if isinstance(error, CredentialsRejected):
        runtime.accounts.set_aside(ctx.attempt.account, error)
    pause = _FAILED_PAUSE
    if error.answered and ctx.lease.state is LeaseState.RELEASING:
        runtime.database.run(releases.blocked(ctx.lease.id, vm_obstacle(error.code or error.kind)))
        waited = (ctx.now - (ctx.lease.release_requested_at or ctx.now)).total_seconds()
        pause = min(runtime.timing.max_backoff, max(pause, waited * _REFUSED_SHARE))
    _again(ctx, pause, error)


def _again(ctx: StepContext, pause: float, error: ProviderError) -> None:
    attempt = ctx.attempt
    later = attempts.retry_later(attempt.id, attempt.token, pause, error_json(error), claim_id=ctx.claim_id)
    ctx.runtime.database.run(later)


def close_attempt(ctx: StepContext) -> None:
    """The attempt is over: its billing ends at the provider's own time, whatever is still to be cleaned up after it.

    A VM that was accepted and then not made for want of capacity is a refusal like any other.
    """
    attempt = ctx.attempt
    clean = attempt.clean or attempt.state is AttemptState.PLANNED
    wanted = ctx.lease.desired is Desired.RUN
    reason = ctx.row.attempt_vm_reason if wanted else None
    refused = refusal(reason) if reason is not None and ctx.lease.state is LeaseState.PROVISIONING else None
    state = AttemptState.DEAD if refused is None else AttemptState.REFUSED
    error = _vm_ended(reason) if refused is None else error_json(refused)
    with ctx.writing_attempts() as connection:
        statement = attempts.end(attempt.id, ctx.claim_id, state, before=attempt.state, clean=clean, error=error)
        ended = must_hold(connection.execute(statement))
        values = {
            "provider_gone_at": NOW,
            "rate_per_hour": None,
            "rate_since": None,
            "cost_closed": ctx.row.lease_cost_closed
            + closed_cost(ended.price_per_hour, ended.billing_started_at, ended.billing_ended_at),
            "billing_ended_at": ended.billing_ended_at,
        }
        event = NewEvent(
            type=f"attempt.{state}",
            data={
                "n": attempt.n,
                "instance_id": attempt.instance_id,
                "offering": offering_json(attempt),
                "error": None if error is None else public_error(error),
            },
        )
        change(connection, ctx, event, values=values)
        if wanted:
            reserve_minimum(connection, ctx)
            connection.execute(*_taken_back(ctx, reason) if refused is None else cool_off(ctx, refused))
    ctx.runtime.catalogue.forget()


def _taken_back(ctx: StepContext, reason: dict[str, Any] | None) -> Bound[Update]:
    pause = after_end(ReasonCode.INTERRUPTED, ctx.runtime.cool_offs)
    assert pause is not None
    return offering_stats.cool_off(offering_key(ctx.attempt), pause, code=(reason or {}).get("code"))


def _vm_ended(reason: dict[str, Any] | None) -> dict[str, Any] | None:
    if reason is None:
        return None
    return {"class": ErrorKind.VM_ENDED, "code": reason.get("code"), "message": reason.get("message")}


def requeue(ctx: StepContext) -> None:
    """The old VM is confirmed dead: the lease queues again for another one, its quota kept."""
    reason = Reason(ReasonCode.INTERRUPTED, "the provider took the spot VM back; a replacement is being looked for")
    event = NewEvent(type="lease.queued", data={"reason": reason.as_json()})
    values = {
        "reason": reason.as_json(),
        "pass_started_at": None,
        "wait_until": ctx.now + ctx.lease.waits,
        "placement": None,
        "connection": None,
        "interruption": None,
        "running_at": None,
        "launched_at": None,
    }
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=LeaseState.QUEUED, wanted=True, values=values)


def finish(ctx: StepContext) -> None:
    """Terminal means free: the quota goes back, once, and what was secret is forgotten."""
    state = final_state(ctx.lease)
    reason = without_obstacle(ctx.lease.reason) if ctx.lease.reason else None
    event = NewEvent(type=f"lease.{state}", data={"reason": reason.as_json() if reason else None})
    values = {
        "reason": reason.as_stored() if reason else None,
        "ended_at": NOW,
        "next_due": None,
        "rate_per_hour": None,
        "rate_since": None,
    }
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=state, values=values)
        _forget(connection, ctx)


def _forget(connection: Connection, ctx: StepContext) -> None:
    connection.execute(quotas.release(ctx.lease.id))
    connection.execute(launches.forget_script(ctx.lease.id))
    connection.execute(launches.forget_params(ctx.lease.id))
