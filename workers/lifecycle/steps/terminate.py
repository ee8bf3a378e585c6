"""Termination of VMs: one call for the leases of an account and region that end now, where the provider takes several.

The step never gives up: the next try comes after a growing pause. A VM that cannot be ended does not delay the others.
"""

from collections.abc import Sequence
from datetime import timedelta

from app.db.core.prepared import Bound
from app.db.leases import attempts, launches, release_obstacles
from app.db.leases.launches import AcceptedEnd
from app.db.operations.brakes import IS_HELD
from app.domain.leases import LeaseState
from app.domain.lifecycle import Rest
from app.domain.reasons import vm_obstacle
from workers.lifecycle.steps.console import keep_console
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import NotReady, ProviderError, Throttled
from workers.providers.types import BatchResult
from workers.runtime.accounts import error_json

_NO_TOKEN_PAUSE = timedelta(seconds=1)
_FAILED_PAUSE = 5.0
_REFUSED_SHARE = 0.25
_READY_PATIENCE_SECONDS = 60.0
"""How long after the release request a VM that is still changing is no obstacle."""


def terminate(ctx: StepContext) -> Rest | None:
    """Asks the provider to end the VM of one lease.

    Reading the console takes time, so the lease is loaded again after it. A hold that was set meanwhile keeps the VM.
    """
    return None if keep_console(ctx) else terminate_each([ctx])


def terminate_each(leases: Sequence[StepContext]) -> Rest | None:
    """Asks the provider to end the VMs of these leases, which are in one account and region, with one call."""
    first = leases[0]
    runtime, bucket = first.runtime, first.bucket("terminate")
    if not runtime.rate_limiter.take(first.provider, bucket):
        return Rest(first.now + _NO_TOKEN_PAUSE)
    if runtime.stopping.is_set():
        return Rest(first.now)
    if runtime.database.first(Bound(IS_HELD, {})) is not None:
        return None
    vms = {str(ctx.attempt.instance_id): ctx for ctx in leases}
    try:
        ended = first.provider.terminate(first.attempt.region, list(vms))
    except ProviderError as error:
        ended = BatchResult(refused=dict.fromkeys(vms, error))
    accepted = [
        AcceptedEnd(ctx.attempt.id, ctx.attempt.token, vm_id in ended.done)
        for vm_id, ctx in vms.items()
        if vm_id not in ended.refused
    ]
    if accepted:
        runtime.database.run(launches.terminate_sent(accepted))
        first.hurry_watch()
    throttled = next((refusal for refusal in ended.refused.values() if isinstance(refusal, Throttled)), None)
    pause = (
        runtime.rate_limiter.throttled(first.provider, bucket, throttled) if throttled is not None else _FAILED_PAUSE
    )
    for vm_id, refusal in ended.refused.items():
        if isinstance(refusal, Throttled):
            _retry(vms[vm_id], pause, refusal)
        else:
            _record_refusal(vms[vm_id], refusal)
    return None


def _record_refusal(ctx: StepContext, error: ProviderError) -> None:
    """Records on the lease that the provider refuses. The pauses grow with the time since the release request."""
    runtime = ctx.runtime
    error = runtime.accounts.verdict(ctx.attempt.account, error)
    pause = _FAILED_PAUSE
    waited = (ctx.now - (ctx.lease.release_requested_at or ctx.now)).total_seconds()
    soon = isinstance(error, NotReady) and waited < _READY_PATIENCE_SECONDS
    if error.answered and not soon and ctx.lease.state is LeaseState.RELEASING:
        runtime.database.run(release_obstacles.blocked(ctx.lease.id, vm_obstacle(error.code or error.kind)))
        pause = min(runtime.timing.max_backoff, max(pause, waited * _REFUSED_SHARE))
    _retry(ctx, pause, error)


def _retry(ctx: StepContext, pause: float, error: ProviderError) -> None:
    attempt = ctx.attempt
    later = attempts.retry_later(attempt.id, attempt.token, pause, error_json(error), claim_id=ctx.claim_id)
    ctx.runtime.database.run(later)
