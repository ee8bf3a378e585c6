"""What a worker records of the create call of a batch.

Facts are written for every slot, whatever became of its lease. A decision about a slot needs the claim of its lease. A
slot whose lease another worker holds stays as it is: that worker repeats the call.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy import Connection, Executable

from app.db.fleet import inventory
from app.db.leases import attempts, batches
from app.db.leases.attempts import KnownVm
from app.db.leases.transitions import locked
from app.domain.ids import AttemptId, BatchId, LeaseId
from app.domain.leases import AttemptState
from workers.lifecycle.steps.batch_plan import own_hashes, own_spec
from workers.lifecycle.steps.context import ClaimLostError, StepContext
from workers.lifecycle.steps.refusals import cool_off, set_refused_aside
from workers.lifecycle.steps.send import (
    RETRY_FIRST,
    end_attempt,
    is_overdue,
    note_for_labels,
    pause_after_unknown,
    show_vms,
    vm_facts,
)
from workers.providers.errors import (
    NetworkFull,
    NotReady,
    OutcomeUnknown,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    SendExpired,
    Throttled,
    TokenConflict,
    Unreachable,
)
from workers.providers.types import BatchLaunched, LaunchSpec, Params, Vm
from workers.runtime.accounts import error_json

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SentSlot:
    """An attempt of the batch. `unknown_since`: before this send. `ctx`: None if another worker holds its lease."""

    attempt_id: AttemptId
    lease_id: LeaseId
    token: str
    unknown_since: datetime | None
    ctx: StepContext | None


@dataclass(frozen=True, slots=True)
class SentBatch:
    """One send of a batch. `spec`: only of its first send, whose outcome is the outcome of the batch."""

    batch_id: BatchId
    params: Params
    at: datetime
    slots: Mapping[int, SentSlot]
    spec: LaunchSpec | None

    @property
    def held(self) -> Mapping[int, StepContext]:
        """The slots about which this worker may decide."""
        return {index: slot.ctx for index, slot in self.slots.items() if slot.ctx is not None}


def record(ctx: StepContext, sent: SentBatch, answer: BatchLaunched) -> None:
    """Records the answer for all slots. A slot for which the answer names neither a VM nor an error has an unknown outcome.

    An answer with VMs is that of the batch, whichever of its calls created them. Without a VM, the answer proves nothing
    about an earlier call.
    """
    store_vms(
        ctx, sent.batch_id, {index: (sent.slots[index], vm) for index, vm in answer.vms.items() if index in sent.slots}
    )
    missing = {index: error for index, error in answer.missing.items() if index in sent.slots}
    if answer.vms:
        _end_refused(ctx, sent, missing)
    else:
        _refused(ctx, sent, missing)
    silent = sent.slots.keys() - answer.vms.keys() - answer.missing.keys()
    if silent:
        error = OutcomeUnknown("the provider has not reported this VM of the batch", code="NotReported")
        _each(ctx, sent, lambda _, slot: _unknown(ctx, sent, slot, error), silent)
    held_by_others = [slot.lease_id for index, slot in sent.slots.items() if index in missing and slot.ctx is None]
    if held_by_others:
        with ctx.runtime.database.begin() as connection:
            connection.execute(*locked(held_by_others))
            connection.execute(*batches.ask_again(sent.batch_id, sent.at, held_by_others))
    ctx.hurry_watch()


def store_vms(ctx: StepContext, batch_id: BatchId, vms_by_slot: Mapping[int, tuple[SentSlot, Vm]]) -> None:
    """Stores the VMs of slots in one transaction, and wakes the leases that other workers hold."""
    if not vms_by_slot:
        return
    others = [slot.lease_id for slot, _ in vms_by_slot.values() if slot.ctx is None]
    held = [(slot.ctx, vm) for slot, vm in vms_by_slot.values() if slot.ctx is not None]
    with ctx.runtime.database.begin() as connection:
        connection.execute(*locked(slot.lease_id for slot, _ in vms_by_slot.values()))
        vms = [KnownVm(slot.attempt_id, slot.token, vm_facts(vm, ctx.now)) for slot, vm in vms_by_slot.values()]
        connection.execute(*attempts.known_each(vms))
        if held:
            show_vms(connection, held)
        connection.execute(*batches.answered(batch_id))
        if others:
            connection.execute(*inventory.wake(others))
    note_for_labels(ctx, (vm for _, vm in vms_by_slot.values()))


def store_others(ctx: StepContext, batch_id: BatchId, vms_by_slot: Mapping[int, Vm]) -> None:
    """Stores the VMs that the cloud shows in the other slots of an attempt's batch."""
    rows = {row.batch_index: row for row in ctx.runtime.database.all(batches.members(batch_id))}
    mine, unknown = ctx.row.attempt_batch_index, {index for index, row in rows.items() if row.instance_id is None}
    others = {
        index: (
            SentSlot(AttemptId(row.id), LeaseId(row.lease_id), row.token, row.unknown_since, None),
            vms_by_slot[index],
        )
        for index, row in rows.items()
        if index in vms_by_slot and index in unknown and index != mine
    }
    store_vms(ctx, batch_id, others)


def not_made(ctx: StepContext, sent: SentBatch, error: ProviderError) -> None:
    everyone = dict.fromkeys(sent.slots, error)
    match error:
        case SendExpired():
            _as_before(ctx, sent, error, RETRY_FIRST)
        case Unreachable() if sent.spec is not None and is_overdue(ctx):
            _end_refused(ctx, sent, everyone)
        case Throttled():
            pause = ctx.runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("launch"), error)
            _as_before(ctx, sent, error, pause)
        case NotReady():
            _as_before(ctx, sent, error, error.retry_after or RETRY_FIRST)
        case TokenConflict():
            _only_look(ctx, sent, everyone)
        case Refused():
            _refused(ctx, sent, everyone)
        case _:
            _answer_lost(ctx, sent, error)


def _refused(ctx: StepContext, sent: SentBatch, errors: Mapping[int, ProviderError]) -> None:
    """A refusal of the whole call. It proves nothing about an earlier send of the batch.

    Fewer VMs may fit into a quota or a network. Then half of the attempts are planned again for a smaller batch.
    """
    if sent.spec is None:
        _only_look(ctx, sent, errors)
        return
    fewer_may_fit = any(isinstance(error, ProviderQuotaExceeded | NetworkFull) for error in errors.values())
    again = list(sent.slots)[: len(sent.slots) // 2] if fewer_may_fit else []
    _end_refused(ctx, sent, {index: error for index, error in errors.items() if index not in again}, again=again)


def _answer_lost(ctx: StepContext, sent: SentBatch, error: ProviderError) -> None:
    """One lost answer sets no offering aside. After a second one, other leases prefer other offerings."""
    _each(ctx, sent, lambda _, slot: _unknown(ctx, sent, slot, error))
    if sent.spec is None:
        ctx.runtime.database.run(cool_off(ctx, error))
        ctx.runtime.catalogue.forget()


def _as_before(ctx: StepContext, sent: SentBatch, error: ProviderError, pause: float) -> None:
    """This send was not executed. If it was the only one, the attempts are planned again, for any later call.

    Otherwise the outcome is as unknown as before.
    """
    reached = not isinstance(error, Unreachable)
    if sent.spec is None:
        _each(ctx, sent, lambda _, slot: _not_done(sent, slot, error, pause, reached=reached))
        return
    with ctx.runtime.database.begin() as connection:
        connection.execute(*locked(slot.lease_id for slot in sent.slots.values()))
        _unsend(connection, sent, list(sent.held.values()), error, pause)


def _unsend(
    connection: Connection, sent: SentBatch, slots: Collection[StepContext], error: ProviderError, pause: float
) -> None:
    """The attempts are planned again. The caller has locked their leases."""
    assert sent.spec is not None
    rows = batches.SlotRows()
    for slot in slots:
        spec = own_spec(slot, sent.spec)
        rows.add(slot.attempt.id, *own_hashes(spec))
    reached, stored = not isinstance(error, Unreachable), json.dumps(dict(error_json(error)))
    connection.execute(*batches.unsent(sent.batch_id, rows, sent.at, pause, stored, reached=reached))


def _not_done(sent: SentBatch, slot: SentSlot, error: ProviderError, pause: float, *, reached: bool) -> Executable:
    since = slot.unknown_since
    return attempts.not_done(
        slot.attempt_id, slot.token, sent.at, pause, error_json(error), unknown_since=since, reached=reached
    )


def _unknown(ctx: StepContext, sent: SentBatch, slot: SentSlot, error: ProviderError) -> Executable:
    pause = pause_after_unknown(slot.ctx or ctx)
    return attempts.unknown(slot.attempt_id, slot.token, sent.at, pause, error_json(error))


def _only_look(ctx: StepContext, sent: SentBatch, errors: Mapping[int, ProviderError]) -> None:
    """A VM exists, or may exist, in each of these slots: create no other one, look for it and adopt it."""

    def searched(index: int, slot: SentSlot) -> Executable:
        return attempts.only_look(slot.attempt_id, slot.token, sent.at, error_json(errors[index]))

    _each(ctx, sent, searched, errors)


def _each(
    ctx: StepContext,
    sent: SentBatch,
    statement: Callable[[int, SentSlot], Executable],
    indexes: Collection[int] | None = None,
) -> None:
    """Writes the answer for these slots, or for all, as far as this send is their newest."""
    slots = [(index, slot) for index, slot in sent.slots.items() if indexes is None or index in indexes]
    if not slots:
        return
    with ctx.runtime.database.begin() as connection:
        connection.execute(*locked(slot.lease_id for _, slot in slots))
        for index, slot in sorted(slots, key=lambda item: item[1].attempt_id):
            connection.execute(statement(index, slot))


def _end_refused(
    ctx: StepContext, sent: SentBatch, errors: Mapping[int, ProviderError], *, again: Collection[int] = ()
) -> None:
    """Ends the attempts of slots that definitely got no VM. Their leases try the next candidate.

    `again`: slots of the first send whose attempts are planned again, in the same transaction.
    """
    refused = {index: slot for index, slot in sent.held.items() if index in errors}
    if not refused:
        return
    verdicts = {error: ctx.runtime.accounts.verdict(ctx.attempt.account, error) for error in set(errors.values())}
    with ctx.runtime.database.begin() as connection:
        connection.execute(*locked(slot.lease_id for slot in sent.slots.values()))
        if again:
            some_error = next(iter(errors.values()))
            _unsend(connection, sent, [sent.held[index] for index in again], some_error, 0.0)
        for index, slot in sorted(refused.items(), key=lambda item: item[1].attempt.id):
            _end_one(connection, slot, verdicts[errors[index]])
        for error in {verdicts[errors[index]] for index in refused}:
            set_refused_aside(connection, ctx, error)
    ctx.runtime.catalogue.forget()


def _end_one(connection: Connection, slot: StepContext, error: ProviderError) -> None:
    """A slot whose lease another worker has taken over is that worker's to decide about."""
    try:
        with connection.begin_nested():
            end_attempt(connection, slot, AttemptState.REFUSED, error_json(error), before=AttemptState.SENT)
    except ClaimLostError:
        log.info("a slot of the batch is held by another worker", lease_id=slot.lease.id)
