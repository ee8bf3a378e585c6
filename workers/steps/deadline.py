"""The deadline tag: the truth outside our database, which the dead-man switch goes by."""

import structlog

from app.db import attempts, launches
from app.domain.reconcile import deadline
from workers.accounts import error_json
from workers.providers.base import ProviderError, Throttled
from workers.steps.context import Context

log = structlog.get_logger(__name__)

_FAILED_PAUSE = 5.0


def renew_deadline(ctx: Context) -> None:
    """Writes the tag, then that it is written: a crash between the two writes it again."""
    attempt, runtime = ctx.attempt, ctx.runtime
    at = deadline(ctx.lease, runtime.timing)
    try:
        ctx.provider.set_deadline(attempt.region, [str(attempt.instance_id)], at)
    except ProviderError as error:
        log.warning("deadline not written", code=error.code, error=error.message)
        pause = _FAILED_PAUSE
        if isinstance(error, Throttled):
            pause = runtime.pacer.throttled(ctx.provider, ctx.bucket("read"), error)
        runtime.database.run(attempts.retry_later(attempt.id, attempt.token, pause, error_json(error)))
        return
    runtime.database.run(launches.deadline_written(ctx.lease.id, ctx.claim_id, at))
