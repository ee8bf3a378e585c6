"""Stores the console output of a VM that did not boot. Its owner has no other source for the cause."""

import structlog

from app.db.leases import consoles
from app.domain.reasons import ReasonCode
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import ProviderError

log = structlog.get_logger(__name__)

_FAILED_BOOTS = frozenset({ReasonCode.BOOT_TIMEOUT, ReasonCode.LAUNCH_TIMEOUT})


def keep_console(ctx: StepContext) -> bool:
    """Stores the console of a VM that is ended because it did not boot. True: the cloud was asked.

    There is one try per attempt, and its failure delays nothing.
    """
    attempt, reason = ctx.attempt, ctx.lease.reason
    if reason is None or reason.code not in _FAILED_BOOTS:
        return False
    database = ctx.runtime.database
    if database.first(consoles.ask_once(attempt.id)) is None:
        return False
    try:
        output = ctx.provider.console_output(attempt.region, str(attempt.instance_id))
    except ProviderError as error:
        log.warning("no console output", instance_id=attempt.instance_id, code=error.code, error=error.message)
        return True
    if output:
        database.run(consoles.keep(ctx.lease.tenant_id, ctx.lease.id, attempt.n, output))
    return True
