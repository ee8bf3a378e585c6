"""The loop that moves a lease: claim it, then load, decide and execute until the lease may rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.leases import claims
from app.domain.ids import LeaseId
from app.domain.leases import AttemptState
from app.domain.lifecycle import BeginRelease, Enter, Rest, Send, Step, bounded, decide
from workers.lifecycle.batches.company import await_company
from workers.lifecycle.step_table import calls_cloud, take
from workers.lifecycle.steps.context import ClaimLostError, StepContext, context_from_row
from workers.lifecycle.steps.send import send_elsewhere
from workers.providers.errors import Unreachable
from workers.runtime.brakes import HELD_PAUSE, is_on_hold
from workers.runtime.bulkheads import CrowdedError
from workers.runtime.database import failure_name
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_STEPS = 64
"""A bound against a step that makes no progress. It exceeds the steps of any real path.

A pass over many refusals continues in the next claim.
"""
_AGAIN_SOON = timedelta(seconds=0.2)
_AFTER_A_BUG = timedelta(seconds=30)


class Reconciler:
    """Moves leases. Callers may run it for any lease at any time from any number of threads and hosts."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def run_hinted(self, lease_id: LeaseId) -> bool:
        """Claims a lease that a hint names and moves it.

        False: the lease is not due, claimed by another worker, or unknown, or the process stops.
        """
        if self._runtime.stopping.is_set():
            return False
        claim_id = self._runtime.liveness.claim_id()
        statement = claims.claim(lease_id, claim_id, self._runtime.settings.claim_seconds)
        if self._runtime.database.first(statement) is None:
            return False
        self.run(lease_id, claim_id)
        return True

    def run(self, lease_id: LeaseId, claim_id: UUID) -> None:
        """Moves a claimed lease until the lease rests. When the process stops, another process takes over at once.

        The outermost handler: it logs a failure and schedules the lease for a later retry.
        """
        metrics = self._runtime.metrics
        with _lines_about(lease_id):
            try:
                self._move(lease_id, claim_id)
            except ClaimLostError:
                log.info("claim lost")
                metrics.step_failed("claim_lost")
                self._let_go(lease_id, claim_id, _AGAIN_SOON)
            except DBAPIError as error:
                log.warning(failure_name(error), error=str(error.orig))
                metrics.step_failed("database")
                self._let_go(lease_id, claim_id, timedelta(seconds=1))
            except Exception:
                log.exception("step failed")
                metrics.step_failed("bug")
                self._let_go(lease_id, claim_id, _AFTER_A_BUG)

    def _move(self, lease_id: LeaseId, claim_id: UUID) -> None:
        for _ in range(_MOST_STEPS):
            if self._runtime.stopping.is_set():
                break
            ctx = self._load(lease_id, claim_id)
            if is_on_hold(self._runtime.database, ctx.row):
                self._rest(ctx, Rest(ctx.now + HELD_PAUSE))
                return
            step = decide(ctx.lease, ctx.now, self._runtime.timing)
            rest = step if isinstance(step, Rest) else self._take(step, ctx)
            if rest is not None:
                self._rest(ctx, rest)
                return
        self._let_go(lease_id, claim_id, _AGAIN_SOON)

    def _load(self, lease_id: LeaseId, claim_id: UUID) -> StepContext:
        row = self._runtime.database.first(claims.load(lease_id, claim_id))
        if row is None:
            raise ClaimLostError
        _bind_log_context(row)
        return context_from_row(self._runtime, row, claim_id)

    def _take(self, step: Step, ctx: StepContext) -> Rest | None:
        if not calls_cloud(step):
            return self._execute(step, ctx)
        rest = await_company(ctx) if isinstance(step, Send) else None
        if rest is not None:
            return rest
        try:
            with self._runtime.bulkheads.inside(ctx.attempt.account):
                return self._execute(step, ctx)
        except CrowdedError as error:
            return self._crowded(step, ctx, error)

    def _crowded(self, step: Step, ctx: StepContext, error: CrowdedError) -> Rest | None:
        """A create call that was never sent goes to another offering when the cloud has been slow for long."""
        slow = self._runtime.bulkheads.slow_for(ctx.attempt.account)
        never_sent = isinstance(step, Send) and ctx.attempt.state is AttemptState.PLANNED
        if never_sent and slow > self._runtime.settings.unreachable_seconds:
            send_elsewhere(ctx, Unreachable("the cloud has not answered for a while", code="NoAnswer"))
            return None
        return Rest(ctx.now + timedelta(seconds=error.pause))

    def _execute(self, step: Step, ctx: StepContext) -> Rest | None:
        name = type(step).__name__
        with ctx.span(name), self._runtime.metrics.step(name, self._runtime.monotonic):
            rest = take(step, ctx)
        log_step = log.info if rest is None else log.debug
        log_step("step", step=name, state=str(ctx.lease.state), **_details(step))
        return rest

    def _rest(self, ctx: StepContext, rest: Rest) -> None:
        rest = bounded(ctx.lease, rest, ctx.now)
        statement = claims.unclaim(ctx.lease.id, ctx.claim_id, next_due=rest.until, wake_count=ctx.lease.wake_count)
        self._runtime.database.run(statement)

    def _let_go(self, lease_id: LeaseId, claim_id: UUID, pause: timedelta) -> None:
        """Releases the claim and makes the lease due after `pause`. If that fails, a later sweep releases the claim."""
        try:
            self._runtime.database.run(claims.postpone(lease_id, claim_id, pause))
        except DBAPIError:
            self._runtime.unreleased.add({lease_id: claim_id})


_ABOUT = ("lease_id", "tenant_id", "request_id", "attempt_id")


@contextmanager
def _lines_about(lease_id: LeaseId) -> Iterator[None]:
    """Adds the lease's id to each log line of this thread. `_bind_log_context` adds more once the lease is loaded."""
    structlog.contextvars.bind_contextvars(lease_id=lease_id)
    try:
        yield
    finally:
        structlog.contextvars.unbind_contextvars(*_ABOUT)


def _bind_log_context(row: Any) -> None:
    """Adds the lease's tenant, its newest attempt, and the request that last changed it to the log context."""
    about = {"tenant_id": row.lease_tenant_id, "request_id": row.lease_request_id, "attempt_id": row.attempt_id}
    structlog.contextvars.bind_contextvars(**{name: value for name, value in about.items() if value is not None})


def _details(step: Step) -> dict[str, str]:
    match step:
        case Enter(state):
            return {"to": str(state)}
        case BeginRelease(reason):
            return {"reason": str(reason.code)}
        case _:
            return {}
