"""Stores the console output of a VM that did not boot. Its owner has no other source for the cause."""

import structlog

from app.db.leases import consoles
from app.domain.reasons import ReasonCode
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import ProviderError

log = structlog.get_logger(__name__)

_FAILED_BOOTS = frozenset({ReasonCode.BOOT_TIMEOUT, ReasonCode.LAUNCH_TIMEOUT})


def needs_console(ctx: StepContext) -> bool:
    """Whether the console of the VM explains why the lease ends."""
    return ctx.lease.reason is not None and ctx.lease.reason.code in _FAILED_BOOTS


def keep_console(ctx: StepContext) -> bool:
    """Stores the console of a VM that is ended because it did not boot. True: the cloud was asked.

    There is one try per attempt, and its failure delays nothing.
    """
    if not needs_console(ctx):
        return False
    attempt, database = ctx.attempt, ctx.runtime.database
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
