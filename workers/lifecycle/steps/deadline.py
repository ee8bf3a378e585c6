"""The deadline tag: the truth outside our database, which the dead-man switch goes by."""

import structlog

from app.db.leases import attempts, launches
from app.domain.lifecycle import deadline
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import NotReady, ProviderError, Throttled
from workers.providers.types import BatchResult
from workers.runtime.accounts import error_json

log = structlog.get_logger(__name__)

_FAILED_PAUSE = 5.0


def renew_deadline(ctx: StepContext) -> None:
    """Writes the tag, then that it is written: a crash between the two writes it again."""
    attempt, runtime = ctx.attempt, ctx.runtime
    at = deadline(ctx.lease, runtime.timing)
    try:
        written = ctx.provider.set_deadline(attempt.region, [str(attempt.instance_id)], at)
        written.require(str(attempt.instance_id), *_to_repeat(written))
    except ProviderError as error:
        log.warning("deadline not written", code=error.code, error=error.message)
        pause = _FAILED_PAUSE
        if isinstance(error, Throttled):
            pause = runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("read"), error)
        later = attempts.retry_later(attempt.id, attempt.token, pause, error_json(error), claim_id=ctx.claim_id)
        runtime.database.run(later)
        return
    for resource_id, refusal in written.refused.items():
        about = {"id": resource_id, "code": refusal.code, "error": refusal.message}
        log.warning("deadline not written on a resource of the VM", **about)
    runtime.database.run(launches.deadline_written(ctx.lease.id, ctx.claim_id, at))


def _to_repeat(written: BatchResult) -> list[str]:
    """What belongs to the VM and may well be written next time. The VM's own tag is the one that counts: a refusal is logged."""
    errors = written.refused.items()
    return [
        resource_id for resource_id, error in errors if isinstance(error, Throttled | NotReady) or not error.answered
    ]
