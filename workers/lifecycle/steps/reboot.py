"""Sends a requested reboot. After a lost answer the step sends it again: two reboots in a row do no harm."""

from datetime import timedelta

from app.db.events.events import NewEvent
from app.db.leases import attempts, reboots
from app.domain.event_parts import EventError
from app.domain.events import LeaseRebooted, LeaseRebootFailed
from app.domain.lifecycle import Rest
from app.domain.provider_messages import public_error
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import NotFound, ProviderError, Refused, Throttled
from workers.runtime.accounts import error_json

_NO_TOKEN_PAUSE = timedelta(seconds=1)
_FAILED_PAUSE = 5.0
_PATIENCE = timedelta(minutes=5)
"""A reboot that comes later than this would surprise its owner."""


def reboot(ctx: StepContext) -> Rest | None:
    """Sends the reboot. Gives up when the provider refuses, or does not accept the call for five minutes.

    An event reports either outcome.
    """
    attempt, runtime = ctx.attempt, ctx.runtime
    if not runtime.rate_limiter.take(ctx.provider, ctx.bucket("write")):
        return Rest(ctx.now + _NO_TOKEN_PAUSE)
    try:
        ctx.provider.reboot(attempt.region, [str(attempt.instance_id)]).require(str(attempt.instance_id))
    except ProviderError as error:
        _failed(ctx, error)
    else:
        _over(ctx, NewEvent(LeaseRebooted(n=attempt.n)))
    return None


def _failed(ctx: StepContext, error: ProviderError) -> None:
    attempt, runtime = ctx.attempt, ctx.runtime
    error = runtime.accounts.verdict(attempt.account, error)
    pause = _FAILED_PAUSE
    if isinstance(error, Throttled):
        pause = runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("write"), error)
    stored = error_json(error)
    if isinstance(error, Refused | NotFound) or _too_late(ctx):
        runtime.database.run(attempts.failed(attempt.id, attempt.token, stored, claim_id=ctx.claim_id))
        error_data = EventError.of(public_error(stored))
        _over(ctx, NewEvent(LeaseRebootFailed(n=attempt.n, error=error_data)))
    else:
        later = attempts.retry_later(attempt.id, attempt.token, pause, stored, claim_id=ctx.claim_id)
        runtime.database.run(later)


def _too_late(ctx: StepContext) -> bool:
    requested_at = ctx.lease.reboot_requested_at
    return requested_at is not None and requested_at + _PATIENCE <= ctx.now


def _over(ctx: StepContext, event: NewEvent) -> None:
    if ctx.lease.reboot_requested_at is not None:
        statement = reboots.over(ctx.lease.id, ctx.claim_id, ctx.lease.reboot_requested_at, event)
        ctx.runtime.database.run(statement)
