"""The create call of a batch, for all of its slots. A repeat is the same call with the stored parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.db.leases import batch_company, batches
from app.domain.ids import AttemptId, BatchId, LeaseId
from app.domain.leases import AttemptState
from app.domain.lifecycle import Rest
from workers.lifecycle.batches.company import UnsentBatch, gather, loaded, plan_alone
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.record_batch import SentBatch, SentSlot, not_made, record
from workers.lifecycle.steps.send import HELD_OFF, call_seconds, send, send_elsewhere, window_of_claim
from workers.lifecycle.steps.settle import settle
from workers.providers.errors import ProviderError

_CALL_UNDER_WAY = timedelta(seconds=1)


def send_together(ctx: StepContext) -> Rest | None:
    """Sends the create call of an attempt: together with its company, or alone; or repeats the call that it was sent with."""
    if ctx.row.attempt_batch_id is not None:
        return _repeat(ctx)
    checked_at = ctx.runtime.monotonic()
    is_first = ctx.attempt.state is AttemptState.PLANNED and ctx.row.attempt_batch_key is not None
    gathered = gather(ctx) if is_first else None
    if gathered is None:
        return _send_alone(ctx)
    sent = _first_send(gathered)
    with _freed(ctx, sent):
        ctx.runtime.database.run(batch_company.wake_left(ctx.lease.tenant_id, ctx.row.attempt_batch_key))
        _call(ctx, sent, checked_at)
    return None


def _send_alone(ctx: StepContext) -> Rest | None:
    """The attempt has parameters of its own now, if it had none."""
    if ctx.attempt.state is not AttemptState.PLANNED or ctx.row.attempt_has_params:
        return send(ctx)
    try:
        params = plan_alone(ctx)
    except ProviderError as error:
        send_elsewhere(ctx, error)
        return None
    return send(ctx, params)


def _first_send(gathered: UnsentBatch) -> SentBatch:
    slots = {
        index: SentSlot(slot.attempt.id, slot.lease.id, slot.attempt.token, None, slot)
        for index, slot in enumerate(gathered.slots)
    }
    return SentBatch(gathered.batch_id, gathered.sent.params, gathered.sent.at, slots, gathered.spec)


def _repeat(ctx: StepContext) -> Rest | None:
    """The same call again. When a slot has ended since, a repeat could create its VM anew: then the slots are only searched for."""
    checked_at = ctx.runtime.monotonic()
    again: SentBatch | Rest | None = None
    with ctx.runtime.database.begin() as connection:
        again = _store_repeat(connection, ctx)
    if again is None:
        settle(ctx)
        return None
    if isinstance(again, Rest):
        return again
    with _freed(ctx, again):
        _call(ctx, again, checked_at)
    return None


def _store_repeat(connection: Connection, ctx: StepContext) -> SentBatch | Rest | None:
    """None: the call must not be repeated."""
    settings, batch_id = ctx.runtime.settings, BatchId(ctx.row.attempt_batch_id)
    call, hold = call_seconds(settings), settings.claim_seconds
    if (
        connection.execute(
            *batch_company.lead(ctx.lease.id, ctx.claim_id, call_seconds=call, hold_seconds=hold)
        ).first()
        is None
    ):
        return Rest(ctx.now + HELD_OFF)
    batch = connection.execute(*batches.locked_batch(batch_id)).one()
    if ctx.attempt.last_sent_at is None or batch.last_sent_at > ctx.attempt.last_sent_at:
        return Rest(ctx.now + _CALL_UNDER_WAY)
    if not batch.repeatable or batch.params is None:
        return None
    rows = connection.execute(*batches.members(batch_id)).all()
    number, limit = ctx.runtime.liveness.number, len(rows)
    company = batch_company.claim_slots(
        batch_id, ctx.lease.id, limit=limit, call_seconds=call, hold_seconds=hold, number=number
    )
    claimed = {LeaseId(row.id): row.claim_id for row in connection.execute(*company)}
    held = {member.lease.id: member for member in (ctx, *loaded(connection, ctx.runtime, claimed))}
    connection.execute(*batches.sent_again(batch_id, held, call_seconds=call))
    slots = {
        row.batch_index: SentSlot(
            AttemptId(row.id), LeaseId(row.lease_id), row.token, row.unknown_since, held.get(LeaseId(row.lease_id))
        )
        for row in rows
    }
    return SentBatch(batch_id, dict(batch.params), batch.now, slots, None)


def _call(ctx: StepContext, sent: SentBatch, checked_at: float) -> None:
    try:
        with window_of_claim(ctx, checked_at):
            answer = ctx.provider.launch_batch(ctx.attempt.region, sent.params)
    except ProviderError as error:
        not_made(ctx, sent, error)
    else:
        record(ctx, sent, answer)
    ctx.runtime.database.run(batches.forget_params([sent.batch_id]))


@contextmanager
def _freed(ctx: StepContext, sent: SentBatch) -> Iterator[None]:
    """Releases the claims of the company afterwards. If that fails, a later sweep releases them."""
    company = {slot.lease.id: slot.claim_id for slot in sent.held.values() if slot.lease.id != ctx.lease.id}
    try:
        yield
    finally:
        try:
            ctx.runtime.database.run(batch_company.free(company))
        except DBAPIError:
            ctx.runtime.unreleased.add(company)
        ctx.runtime.nudge.set()
