"""T3 to T5: check, call, record. The call is made from the stored parameters, outside any transaction."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Update

from app.db.core.prepared import Bound
from app.db.events.events import NewEvent
from app.db.fleet import offering_stats
from app.db.leases import attempts
from app.db.leases.transitions import NOW, write
from app.domain.cool_off import after_error
from app.domain.leases import AttemptState
from app.domain.lifecycle import Rest, backoff
from app.domain.provider_messages import public_error
from app.settings import Settings
from workers.accounts import error_json
from workers.lifecycle.steps.context import StepContext, change, must_hold, offering_json, offering_key, reserve_minimum
from workers.observation.vm_reasons import reason_json
from workers.providers.errors import (
    CredentialsRejected,
    ProviderError,
    Refused,
    SendExpired,
    Throttled,
    TokenConflict,
    Unreachable,
)
from workers.providers.send_window import send_window
from workers.providers.types import Params, Vm

_RETRY_FIRST = 1.0
_RETRY_LONGEST = 15.0
_HELD_OFF = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Sent:
    """One send: its parameters, and its time, by which the attempt remembers its newest one."""

    params: Params
    at: datetime


def send(ctx: StepContext) -> Rest | None:
    """Sends the create call of a planned attempt, or repeats the same one whose outcome is unknown."""
    settings, checked_at = ctx.runtime.settings, ctx.runtime.monotonic()
    sent = _check(ctx)
    if sent is None:
        return Rest(ctx.now + _HELD_OFF)
    closes_at = checked_at + settings.claim_seconds - _call_seconds(settings)
    try:
        with send_window(closes_at, ctx.runtime.monotonic):
            vm = ctx.provider.launch(ctx.attempt.region, sent.params)
    except ProviderError as error:
        _not_made(ctx, sent, error)
    else:
        record(ctx, vm)
    return None


def _not_made(ctx: StepContext, sent: Sent, error: ProviderError) -> None:
    match error:
        case SendExpired():
            _nothing_sent(ctx, sent, error)
        case Unreachable():
            _not_reached(ctx, sent, error)
        case Throttled():
            _not_done(ctx, sent, error)
        case TokenConflict():
            _only_look(ctx, sent, error)
        case Refused():
            _refused(ctx, sent, error)
        case _:
            _unknown(ctx, sent, error)


def send_elsewhere(ctx: StepContext) -> None:
    """The cloud of a planned attempt does not answer others: nothing was sent, and the next candidate is tried."""
    _end_refused(
        ctx, Unreachable("the cloud has not answered for a while", code="NoAnswer"), before=AttemptState.PLANNED
    )


def _check(ctx: StepContext) -> Sent | None:
    settings = ctx.runtime.settings
    statement = attempts.send(
        ctx.attempt.id, ctx.claim_id, call_seconds=_call_seconds(settings), hold_seconds=settings.claim_seconds
    )
    row = ctx.runtime.database.first(statement)
    return Sent(dict(row.params), row.last_sent_at) if row is not None else None


def _call_seconds(settings: Settings) -> float:
    return settings.call_timeout + settings.connect_timeout


def record(ctx: StepContext, vm: Vm) -> None:
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


def _not_done(ctx: StepContext, sent: Sent, error: Throttled) -> None:
    pause = ctx.runtime.pacer.throttled(ctx.provider, ctx.bucket("launch"), error)
    _as_before(ctx, sent, error, pause, reached=not isinstance(error, Unreachable))


def _nothing_sent(ctx: StepContext, sent: Sent, error: SendExpired) -> None:
    """This worker was too slow, not the cloud: nobody slows down for it."""
    _as_before(ctx, sent, error, _RETRY_FIRST, reached=True)


def _as_before(ctx: StepContext, sent: Sent, error: ProviderError, pause: float, *, reached: bool) -> None:
    attempt, since = ctx.attempt, ctx.attempt.unknown_since
    statement = attempts.not_done(
        attempt.id, attempt.token, sent.at, pause, error_json(error), unknown_since=since, reached=reached
    )
    ctx.runtime.database.run(statement)


def _not_reached(ctx: StepContext, sent: Sent, error: Unreachable) -> None:
    """Nothing was sent. A cloud that stays out of reach counts as a refusal, unless an earlier send may have worked."""
    since, patience = ctx.attempt.unreachable_since, timedelta(seconds=ctx.runtime.settings.unreachable_seconds)
    if ctx.attempt.unknown_since is None and since is not None and since + patience <= ctx.now:
        _refused(ctx, sent, error)
    else:
        _not_done(ctx, sent, error)


def _only_look(ctx: StepContext, sent: Sent, error: ProviderError) -> None:
    """Something exists, or may exist, under our token: create nothing more, look for it and adopt it."""
    ctx.runtime.database.run(attempts.only_look(ctx.attempt.id, ctx.attempt.token, sent.at, error_json(error)))


def _unknown(ctx: StepContext, sent: Sent, error: ProviderError) -> None:
    attempt, since = ctx.attempt, ctx.attempt.unknown_since
    tries = 1 if since is None else 2 + int((ctx.now - since).total_seconds() / _RETRY_LONGEST)
    pause = backoff(tries, _RETRY_LONGEST, first=_RETRY_FIRST)
    statement = attempts.unknown(attempt.id, attempt.token, sent.at, pause, error_json(error))
    counts = ctx.runtime.database.first(statement) is not None
    if counts and since is not None:
        # not for one lost answer, but a second one is a sign: leases that are free to choose go elsewhere first
        ctx.runtime.database.run(cool_off(ctx, error))
        ctx.runtime.catalogue.forget()


def _refused(ctx: StepContext, sent: Sent, error: ProviderError) -> None:
    """A definite no. After a send of unknown outcome it proves nothing about that one: then only look."""
    if ctx.attempt.unknown_since is not None:
        _only_look(ctx, sent, error)
    else:
        _end_refused(ctx, error, before=AttemptState.SENT)


def _end_refused(ctx: StepContext, error: ProviderError, *, before: AttemptState) -> None:
    rejected = isinstance(error, CredentialsRejected)
    with ctx.writing_attempts() as connection:
        end_attempt(connection, ctx, AttemptState.REFUSED, error_json(error), before=before)
        if not rejected:
            connection.execute(*cool_off(ctx, error))
    if rejected:
        ctx.runtime.accounts.set_aside(ctx.attempt.account, error)
    ctx.runtime.catalogue.forget()


def end_attempt(
    connection: Connection,
    ctx: StepContext,
    state: AttemptState,
    error: Mapping[str, Any] | None,
    *,
    before: AttemptState,
    clean: bool = True,
) -> None:
    """Ends the newest attempt, returns its quota difference, tells it. Guarded by the claim.

    `before`: the state that this was decided from; ClaimLostError when it is another by now. `clean`: it has left nothing.
    """
    attempt = ctx.attempt
    statement = attempts.end(attempt.id, ctx.claim_id, state, before=before, clean=clean, error=error)
    must_hold(connection.execute(statement))
    data = {"n": attempt.n, "offering": offering_json(attempt), "error": public_error(error) if error else None}
    event = NewEvent(type=f"attempt.{state}", data=data)
    change(connection, ctx, event)
    reserve_minimum(connection, ctx)


def cool_off(ctx: StepContext, error: ProviderError) -> Bound[Update]:
    """Sets the offering aside for as long as this kind of refusal usually lasts."""
    pause = after_error(error.kind, ctx.runtime.cool_offs)
    return offering_stats.cool_off(offering_key(ctx.attempt), pause, code=error.code or error.kind)
