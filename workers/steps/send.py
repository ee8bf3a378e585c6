"""T3 to T5: check, call, record. The call is made from the stored parameters, outside any transaction."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Update

from app.db import attempts, learning
from app.db.bound import Bound
from app.db.events import NewEvent
from app.db.transitions import NOW, write
from app.domain.leases import AttemptState
from app.domain.reconcile import Rest, backoff
from app.settings import Settings
from workers.accounts import error_json
from workers.observing import reason_json
from workers.providers.base import (
    CredentialsRejected,
    InsufficientCapacity,
    NotOffered,
    OutcomeUnknown,
    Params,
    PriceTooLow,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    Throttled,
    TokenConflict,
    Unreachable,
    Vm,
)
from workers.steps.context import Context, change, hold_minimum, must_hold, offering_json, offering_key

_RETRY_FIRST = 1.0
_RETRY_LONGEST = 15.0
_HELD_OFF = timedelta(seconds=1)


def send(ctx: Context) -> Rest | None:
    """Sends the create call of a planned attempt, or repeats the same one whose outcome is unknown."""
    params = _check(ctx)
    if params is None:
        return Rest(ctx.now + _HELD_OFF)
    try:
        vm = ctx.provider.launch(ctx.attempt.region, params)
    except Unreachable as error:
        _not_reached(ctx, error)
    except Throttled as error:
        _not_done(ctx, error)
    except TokenConflict as error:
        _only_look(ctx, error)
    except Refused as error:
        _refused(ctx, error)
    except ProviderError as error:
        _unknown(ctx, error)
    else:
        record(ctx, vm)
    return None


def send_elsewhere(ctx: Context) -> None:
    """The cloud of a planned attempt does not answer others: nothing was sent, and the next candidate is tried."""
    _refused(ctx, Unreachable("the cloud has not answered for a while", code="NoAnswer"))


def _check(ctx: Context) -> Params | None:
    settings = ctx.runtime.settings
    statement = attempts.send(
        ctx.attempt.id,
        ctx.claim_id,
        call_seconds=settings.call_timeout + settings.connect_timeout,
        hold_seconds=settings.claim_seconds,
    )
    row = ctx.runtime.database.first(statement)
    return dict(row.params) if row is not None else None


def record(ctx: Context, vm: Vm) -> None:
    """T5: the provider's id is kept whatever the lease became meanwhile; the lease shows it while it is ours.

    A VM that has failed by the time of the answer says why, once: nobody may see it again.
    """
    attempt = ctx.attempt
    facts: dict[str, Any] = {
        "instance_id": vm.id,
        "vm_state": str(vm.state),
        "public_ip": vm.public_ip,
        "private_ip": vm.private_ip,
        "error": None,
    }
    reason = reason_json(vm)
    if reason is not None:
        facts["vm_reason"] = json.loads(reason)
    placement = {**(ctx.row.lease_placement or {}), "instance_id": vm.id}
    event = NewEvent(type="attempt.launched", data={"n": attempt.n, "instance_id": vm.id, **offering_json(attempt)})
    with ctx.writing_attempts() as connection:
        connection.execute(*attempts.known(attempt.id, attempt.token, facts))
        values = {"launched_at": NOW, "placement": placement}
        connection.execute(*write(ctx.lease.id, event, claim_id=ctx.claim_id, values=values))
    ctx.hurry_watch()


def _not_done(ctx: Context, error: Throttled) -> None:
    pause = ctx.runtime.pacer.throttled(ctx.provider, ctx.bucket("launch"), error)
    statement = attempts.not_done(
        ctx.attempt.id,
        ctx.attempt.token,
        pause,
        error_json(error),
        unknown_since=ctx.attempt.unknown_since,
        reached=not isinstance(error, Unreachable),
    )
    ctx.runtime.database.run(statement)


def _not_reached(ctx: Context, error: Unreachable) -> None:
    """Nothing was sent. A cloud that stays out of reach counts as a refusal, unless an earlier send may have worked."""
    since, patience = ctx.attempt.unreachable_since, timedelta(seconds=ctx.runtime.settings.unreachable_seconds)
    if ctx.attempt.unknown_since is None and since is not None and since + patience <= ctx.now:
        _refused(ctx, error)
    else:
        _not_done(ctx, error)


def _only_look(ctx: Context, error: ProviderError) -> None:
    """Something exists, or may exist, under our token: create nothing more, look for it and adopt it."""
    with ctx.writing_attempts() as connection:
        connection.execute(attempts.fact(ctx.attempt.id, ctx.attempt.token, {"error": error_json(error)}))
        connection.execute(attempts.settle(ctx.attempt.id, ctx.attempt.token))


def _unknown(ctx: Context, error: ProviderError) -> None:
    since = ctx.attempt.unknown_since
    tries = 1 if since is None else 2 + int((ctx.now - since).total_seconds() / _RETRY_LONGEST)
    pause = backoff(tries, _RETRY_LONGEST, first=_RETRY_FIRST)
    if since is not None:
        # not for one lost answer, but a second one is a sign: leases that are free to choose go elsewhere first
        ctx.runtime.database.run(cool_off(ctx, error))
        ctx.runtime.catalogue.forget()
    ctx.runtime.database.run(attempts.unknown(ctx.attempt.id, ctx.attempt.token, pause, error_json(error)))


def _refused(ctx: Context, error: ProviderError) -> None:
    """A definite no. After a send of unknown outcome it proves nothing about that one: then only look."""
    if ctx.attempt.unknown_since is not None:
        _only_look(ctx, error)
        return
    if isinstance(error, CredentialsRejected):
        ctx.runtime.accounts.set_aside(ctx.attempt.account, error)
    with ctx.writing_attempts() as connection:
        end_attempt(connection, ctx, AttemptState.REFUSED, error_json(error))
        if not isinstance(error, CredentialsRejected):
            connection.execute(*cool_off(ctx, error))
    ctx.runtime.catalogue.forget()


def end_attempt(connection: Connection, ctx: Context, state: AttemptState, error: Mapping[str, Any] | None) -> None:
    """Ends the newest attempt with nothing left over, returns its quota difference, tells it. Guarded by the claim."""
    attempt = ctx.attempt
    must_hold(connection.execute(attempts.end(attempt.id, ctx.claim_id, state, clean=True, error=error)))
    data = {"n": attempt.n, "offering": offering_json(attempt), "error": dict(error) if error else None}
    event = NewEvent(type=f"attempt.{state}", data=data)
    change(connection, ctx, event)
    hold_minimum(connection, ctx)


def cool_off(ctx: Context, error: ProviderError) -> Bound[Update]:
    """Sets the offering aside for as long as this kind of refusal usually lasts."""
    settings = ctx.runtime.settings
    seconds, reason = _pause(settings, error)
    most = settings.max_backoff_seconds if reason == "provider_error" else settings.cool_off_unoffered_seconds
    longest = max(seconds, most)
    return learning.cool_off(
        offering_key(ctx.attempt), seconds=seconds, longest=longest, reason=reason, code=error.code or error.kind
    )


def _pause(settings: Settings, error: ProviderError) -> tuple[float, str]:
    match error:
        case InsufficientCapacity() | PriceTooLow():
            return settings.cool_off_capacity_seconds, "no_capacity"
        case ProviderQuotaExceeded():
            return settings.cool_off_quota_seconds, "provider_quota"
        case NotOffered():
            return settings.cool_off_unoffered_seconds, "not_offered"
        case OutcomeUnknown() | Unreachable():
            return settings.unreachable_seconds, "provider_error"
        case _:
            return settings.cool_off_quota_seconds, "refused"
