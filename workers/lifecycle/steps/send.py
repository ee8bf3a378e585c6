"""Checks, calls and records. The call uses the stored parameters and runs outside any transaction."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.db.events.events import NewEvent
from app.db.leases import attempts
from app.db.leases.transitions import NOW, LeaseChange, write_each
from app.domain.events import AttemptLaunched
from app.domain.leases import AttemptState, VmState
from app.domain.lifecycle import Rest, backoff
from app.settings import Settings
from workers.lifecycle.steps.context import (
    StepContext,
    attempt_ended,
    change,
    event_offering,
    must_hold,
    reserve_minimum,
)
from workers.lifecycle.steps.refusals import cool_off, set_refused_aside
from workers.observation.vm_reasons import reason_json
from workers.providers.errors import (
    NotReady,
    ProviderError,
    Refused,
    SendExpired,
    Throttled,
    TokenConflict,
    Unreachable,
)
from workers.providers.send_window import send_window
from workers.providers.types import Params, Vm
from workers.runtime.accounts import error_json

RETRY_FIRST = 1.0
"""The first pause in seconds before a create call is repeated."""
_RETRY_LONGEST = 15.0
HELD_OFF = timedelta(seconds=1)
"""The pause after a check that a create call did not pass."""


@dataclass(frozen=True, slots=True)
class SendRecord:
    """One send: its parameters, and its time. The attempt stores the time of its newest send."""

    params: Params
    at: datetime


def send(ctx: StepContext, params: Params | None = None) -> Rest | None:
    """Sends the create call of a planned attempt, or repeats the same call after an unknown outcome.

    `params`: of an attempt that has none yet. They are stored before the call.
    """
    checked_at = ctx.runtime.monotonic()
    sent = _check(ctx, params)
    if sent is None:
        return Rest(ctx.now + HELD_OFF)
    try:
        with window_of_claim(ctx, checked_at):
            vm = ctx.provider.launch(ctx.attempt.region, sent.params)
    except ProviderError as error:
        _not_made(ctx, sent, error)
    else:
        record(ctx, vm)
    return None


def _not_made(ctx: StepContext, sent: SendRecord, error: ProviderError) -> None:
    match error:
        case SendExpired():
            _nothing_sent(ctx, sent, error)
        case Unreachable():
            _not_reached(ctx, sent, error)
        case Throttled():
            _not_done(ctx, sent, error)
        case NotReady():
            _as_before(ctx, sent, error, error.retry_after or RETRY_FIRST, reached=True)
        case TokenConflict():
            _only_look(ctx, sent, error)
        case Refused():
            _refused(ctx, sent, error)
        case _:
            _unknown(ctx, sent, error)


def send_elsewhere(ctx: StepContext, error: ProviderError) -> None:
    """Ends a planned attempt that cannot be sent. Nothing was sent; the next candidate is tried."""
    _end_refused(ctx, error, before=AttemptState.PLANNED)


def _check(ctx: StepContext, params: Params | None) -> SendRecord | None:
    settings = ctx.runtime.settings
    call, hold = call_seconds(settings), settings.claim_seconds
    statement = attempts.send(ctx.attempt.id, ctx.claim_id, params, call_seconds=call, hold_seconds=hold)
    row = ctx.runtime.database.first(statement)
    return SendRecord(dict(row.params), row.last_sent_at) if row is not None else None


def call_seconds(settings: Settings) -> float:
    """The longest time from the connection for a create call to its answer."""
    return settings.call_timeout + settings.connect_timeout


def window_of_claim(ctx: StepContext, checked_at: float) -> AbstractContextManager[None]:
    """The time within which a create call may leave: its answer arrives before the claim that was checked runs out."""
    settings = ctx.runtime.settings
    closes_at = checked_at + settings.claim_seconds - call_seconds(settings)
    return send_window(closes_at, ctx.runtime.monotonic)


def record(ctx: StepContext, vm: Vm) -> None:
    """Stores the VM in a transaction. See `store_vm`."""
    with ctx.writing_attempts() as connection:
        store_vm(connection, ctx, vm)
    if ctx.row.attempt_batch_id is not None:
        note_for_labels(ctx, [vm])
    ctx.hurry_watch()


def note_for_labels(ctx: StepContext, vms: Iterable[Vm]) -> None:
    """This process has recorded these VMs of a batch, so it writes their own tags (`workers/observation/slot_labels.py`)."""
    ctx.runtime.unlabelled.note(ctx.attempt.account, ctx.attempt.region, [vm.id for vm in vms])


def store_vm(connection: Connection, ctx: StepContext, vm: Vm) -> None:
    """Stores the provider's id, whatever the lease's state is now. The lease shows the id while its claim is ours.

    The caller has locked the lease.
    """
    connection.execute(*attempts.known(ctx.attempt.id, ctx.attempt.token, {**vm_facts(vm, ctx.now), "error": None}))
    show_vms(connection, [(ctx, vm)])


def show_vms(connection: Connection, launched: Sequence[tuple[StepContext, Vm]]) -> None:
    """Each lease shows the VM of its attempt, while its claim is ours. The caller has locked the leases."""
    changes = [
        LeaseChange(ctx.lease.id, ctx.claim_id, _launched(ctx, vm), {"placement": _placement(ctx, vm)})
        for ctx, vm in launched
    ]
    connection.execute(*write_each(changes, values={"launched_at": NOW}))


def _launched(ctx: StepContext, vm: Vm) -> NewEvent:
    return NewEvent(AttemptLaunched(n=ctx.attempt.n, instance_id=vm.id, offering=event_offering(ctx.attempt)))


def _placement(ctx: StepContext, vm: Vm) -> dict[str, Any]:
    placement = {**(ctx.row.lease_placement or {}), "instance_id": vm.id}
    if vm.state is VmState.QUEUED:
        placement["queued_at_provider"] = ctx.now.isoformat().replace("+00:00", "Z")
    return placement


def vm_facts(vm: Vm, now: datetime) -> dict[str, Any]:
    """What the answer to a create call says of a VM.

    A VM that has already failed reports the cause in this answer. The cause is stored now: no later call may see the
    VM.
    """
    facts: dict[str, Any] = {
        "instance_id": vm.id,
        "vm_state": str(vm.state),
        "public_ip": vm.public_ip,
        "private_ip": vm.private_ip,
    }
    reason = reason_json(vm, now)
    if reason is not None:
        facts["vm_reason"] = json.loads(reason)
    return facts


def _not_done(ctx: StepContext, sent: SendRecord, error: Throttled) -> None:
    pause = ctx.runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("launch"), error)
    _as_before(ctx, sent, error, pause, reached=not isinstance(error, Unreachable))


def _nothing_sent(ctx: StepContext, sent: SendRecord, error: SendExpired) -> None:
    """This worker was too slow, not the cloud. The provider's request rate therefore stays as it is."""
    _as_before(ctx, sent, error, RETRY_FIRST, reached=True)


def _as_before(ctx: StepContext, sent: SendRecord, error: ProviderError, pause: float, *, reached: bool) -> None:
    attempt, since = ctx.attempt, ctx.attempt.unknown_since
    statement = attempts.not_done(
        attempt.id, attempt.token, sent.at, pause, error_json(error), unknown_since=since, reached=reached
    )
    ctx.runtime.database.run(statement)


def _not_reached(ctx: StepContext, sent: SendRecord, error: Unreachable) -> None:
    """Nothing was sent. A cloud that stays unreachable counts as a refusal, unless an earlier send may have worked."""
    if ctx.attempt.unknown_since is None and is_overdue(ctx):
        _refused(ctx, sent, error)
    else:
        _not_done(ctx, sent, error)


def is_overdue(ctx: StepContext) -> bool:
    """Whether the cloud of the attempt has been unreachable for longer than a lease waits for it."""
    since, patience = ctx.attempt.unreachable_since, timedelta(seconds=ctx.runtime.settings.unreachable_seconds)
    return since is not None and since + patience <= ctx.now


def _only_look(ctx: StepContext, sent: SendRecord, error: ProviderError) -> None:
    """A VM exists, or may exist, under our token: create no other one, look for the VM and adopt it."""
    ctx.runtime.database.run(attempts.only_look(ctx.attempt.id, ctx.attempt.token, sent.at, error_json(error)))


def _unknown(ctx: StepContext, sent: SendRecord, error: ProviderError) -> None:
    attempt, since = ctx.attempt, ctx.attempt.unknown_since
    statement = attempts.unknown(attempt.id, attempt.token, sent.at, pause_after_unknown(ctx), error_json(error))
    counts = ctx.runtime.database.first(statement) is not None
    if counts and since is not None:
        # One lost answer sets no offering aside. After a second one, other leases prefer other offerings.
        ctx.runtime.database.run(cool_off(ctx, error))
        ctx.runtime.catalogue.forget()


def pause_after_unknown(ctx: StepContext) -> float:
    """Seconds until a create call of unknown outcome is repeated. Grows with the time of unknown outcome."""
    since = ctx.attempt.unknown_since
    tries = 1 if since is None else 2 + int((ctx.now - since).total_seconds() / _RETRY_LONGEST)
    return backoff(tries, _RETRY_LONGEST, first=RETRY_FIRST)


def _refused(ctx: StepContext, sent: SendRecord, error: ProviderError) -> None:
    """A definite refusal. It proves nothing about an earlier send of unknown outcome: then only look for its VM."""
    if ctx.attempt.unknown_since is not None:
        _only_look(ctx, sent, error)
    else:
        _end_refused(ctx, error, before=AttemptState.SENT)


def _end_refused(ctx: StepContext, error: ProviderError, *, before: AttemptState) -> None:
    error = ctx.runtime.accounts.verdict(ctx.attempt.account, error)
    with ctx.writing_attempts() as connection:
        end_attempt(connection, ctx, AttemptState.REFUSED, error_json(error), before=before)
        set_refused_aside(connection, ctx, error)
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
    """Ends the newest attempt, releases its quota difference and writes the event. Guarded by the claim.

    `before`: the attempt's state at the decision. Raises ClaimLostError when the state is another one now. `clean`: the
    attempt has no leftover resources.
    """
    attempt = ctx.attempt
    statement = attempts.end(attempt.id, ctx.claim_id, state, before=before, clean=clean, error=error)
    must_hold(connection.execute(*statement))
    change(connection, ctx, attempt_ended(attempt, state, error))
    reserve_minimum(connection, ctx)
