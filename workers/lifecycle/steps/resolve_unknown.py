"""Resolving unknowns: the VM of an attempt with unknown outcome, and a VM that a listing did not show."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.db.fleet.inventory import ObservationBatch
from app.db.leases import attempts, batches
from app.domain.billing import ran_until
from app.domain.error_kinds import ErrorKind
from app.domain.leases import AttemptState, VmState
from app.domain.lifecycle import Rest, may_appear_until, settled
from app.domain.tags import attempt_key
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.record_batch import store_others
from workers.lifecycle.steps.send import end_attempt, record
from workers.observation.vm_reasons import reason_json
from workers.providers.errors import ProviderError, Throttled
from workers.providers.types import Leftover, Vm
from workers.runtime.accounts import error_json

_LOOKS_A_GAP = 4
_SHORTEST = 0.5
_AFTER_FAILURE = timedelta(seconds=5)
_LONGEST_AFTER_FAILURE = timedelta(seconds=30)
_FAILED_SHARE = 0.25


class _KnownMeanwhileError(Exception):
    """Another worker has learnt the outcome since this step was decided on."""


def look(ctx: StepContext) -> Rest | None:
    """One direct get by token. A VM that exists is adopted. Without a VM and with a complete proof the attempt is dead.

    A resource that is in use proves that the VM exists. Idle resources are leftovers of a VM that ended unseen. They
    are removed after the attempt.
    """
    attempt = ctx.attempt
    try:
        ctx.runtime.accounts.check_identity(attempt.account)
        vm = _find(ctx)
        if vm is None and settled(attempt, ctx.now, ctx.runtime.timing):
            left = _left(ctx)
            if left is not None and not any(leftover.in_use for leftover in left):
                _declare_dead(ctx, clean=not left)
                return None
    except ProviderError as error:
        return _later(ctx, error, _pause(ctx))
    except _KnownMeanwhileError:
        return None
    if vm is not None:
        record(ctx, vm)
        return None
    return Rest(ctx.now + timedelta(seconds=max(ctx.runtime.timing.settle_gap / _LOOKS_A_GAP, _SHORTEST)))


def _find(ctx: StepContext) -> Vm | None:
    """The VM of the attempt. Of a batch, the other VMs that the cloud shows are stored too."""
    attempt, batch_id = ctx.attempt, ctx.row.attempt_batch_id
    if batch_id is None:
        return ctx.provider.find(attempt.region, attempt.token, ctx.owner)
    params = ctx.runtime.database.all(batches.params(batch_id))[0].params
    if params is None:  # they are kept as long as a slot is searched for
        raise _KnownMeanwhileError
    vms = ctx.provider.find_batch(attempt.region, params)
    store_others(ctx, batch_id, vms)
    return vms.get(ctx.row.attempt_batch_index)


def _left(ctx: StepContext) -> Sequence[Leftover] | None:
    """The attempt's leftover resources that cost money. None: the attempt's zone does not answer."""
    left = ctx.provider.leftovers(ctx.attempt.region, ctx.runtime.installation.id, [ctx.lease.id])
    if ctx.attempt.zone in left.unreachable:
        return None
    key = (ctx.lease.id, ctx.attempt.n)
    return [leftover for leftover in left.resources if not leftover.free and attempt_key(leftover.tags) == key]


def _declare_dead(ctx: StepContext, *, clean: bool) -> None:
    error = {
        "class": ErrorKind.NEVER_SEEN,
        "code": None,
        "message": "the create call was never answered, and it has left no VM",
    }
    with ctx.writing_attempts() as connection:
        end_attempt(connection, ctx, AttemptState.DEAD, error, before=AttemptState.SETTLING, clean=clean)
        if ctx.row.attempt_batch_id is not None:
            connection.execute(*batches.forget_params([ctx.row.attempt_batch_id]))
    if not clean:
        ctx.hurry_watch()


def verify(ctx: StepContext) -> Rest | None:
    """One answer did not show the VM, or showed it as stopped, so a direct get decides.

    A get without the VM counts only after the provider's eventual-consistency grace period.
    """
    attempt, timing = ctx.attempt, ctx.runtime.timing
    vm_id = str(ctx.row.attempt_instance_id)
    try:
        ctx.runtime.accounts.check_identity(attempt.account)
        vm = ctx.provider.get(attempt.region, [vm_id])[vm_id]
    except ProviderError as error:
        return _later(ctx, error, _AFTER_FAILURE)
    if vm is not None:
        _store_seen(ctx, vm)
        return None
    if attempt.vm_state is VmState.STOPPED:
        _store_absent(ctx)
        return None
    last_seen, accepted = ctx.row.attempt_vm_state_at, ctx.row.attempt_end_accepted
    until = may_appear_until(ctx.lease, attempt, timing, last_seen=last_seen, end_accepted=accepted)
    if until is not None and until > ctx.now:
        return Rest(min(until, ctx.now + timedelta(seconds=timing.settle_gap or 1.0)))
    ctx.runtime.database.run(attempts.presume_gone(attempt.id, ctx.claim_id, absent_since=last_seen))
    return None


def _store_seen(ctx: StepContext, vm: Vm) -> None:
    """Stores the observation only under the claim: it may be outdated, and a worker that took over has a newer one."""
    observed = ObservationBatch()
    observed.add(
        ctx.attempt.id,
        vm.state,
        at=vm.ended_at or (_ran_until(ctx) if vm.state is VmState.GONE else ctx.now),
        reason=reason_json(vm, ctx.now, confirmed=ctx.attempt.vm_state is VmState.STOPPED),
        addresses=(vm.public_ip, vm.private_ip),
    )
    _write(ctx, observed)


def _store_absent(ctx: StepContext) -> None:
    """A VM that was stopped is not there. From now on the rules for a missing VM apply."""
    observed = ObservationBatch()
    observed.add(ctx.attempt.id, VmState.ABSENT, at=_ran_until(ctx))
    _write(ctx, observed)


def _ran_until(ctx: StepContext) -> datetime | None:
    return ran_until(
        ctx.attempt.vm_state_at,
        deadline=ctx.lease.deadline_applied,
        term_in_doubt=ctx.lease.term_in_doubt,
        market=ctx.attempt.market,
        terminate_sent_at=ctx.attempt.terminate_sent_at,
        looked_at=ctx.now,
    )


def _write(ctx: StepContext, observed: ObservationBatch) -> None:
    with ctx.writing_attempts() as connection:
        ctx.require_claim(connection)
        connection.execute(*observed.statement())


def _pause(ctx: StepContext) -> timedelta:
    """A pause that grows with the time since the last send.

    The first complete listing after the cloud's recovery wakes the lease anyway.
    """
    sent_at = ctx.attempt.last_sent_at or ctx.now
    return min(_LONGEST_AFTER_FAILURE, max(_AFTER_FAILURE, _FAILED_SHARE * (ctx.now - sent_at)))


def _later(ctx: StepContext, error: ProviderError, pause: timedelta) -> Rest:
    if isinstance(error, Throttled):
        pause = timedelta(seconds=ctx.runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("read"), error))
    attempt, seconds = ctx.attempt, pause.total_seconds()
    later = attempts.retry_later(attempt.id, attempt.token, seconds, error_json(error), claim_id=ctx.claim_id)
    ctx.runtime.database.run(later)
    return Rest(ctx.now + pause)
