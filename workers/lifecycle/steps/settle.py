"""Giving up the repetition of a create call of unknown outcome."""

from app.db.events.events import NewEvent
from app.db.leases import attempts
from app.db.leases.transitions import write
from app.domain.events import AttemptSettling
from workers.lifecycle.steps.context import StepContext, must_hold


def settle(ctx: StepContext) -> None:
    """From now on the reconciler only looks for the attempt's VM and sends no create call."""
    event = NewEvent(AttemptSettling(n=ctx.attempt.n))
    with ctx.writing_attempts() as connection:
        if connection.execute(attempts.settle(ctx.attempt.id, ctx.attempt.token)).first() is not None:
            must_hold(connection.execute(*write(ctx.lease.id, event, claim_id=ctx.claim_id)))
