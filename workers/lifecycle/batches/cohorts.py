"""Cohorts: leases claimed in one sweep. Those that need the same step share its statements, and one call to the provider.

What a cohort cannot share, each lease does alone: a create call, a placement unlike others, a step that failed for the cohort.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.leases import claims
from app.db.leases.claims import ClaimRest
from app.domain.gpus.protocol import AwaitProof
from app.domain.ids import LeaseId
from app.domain.lifecycle import Enter, Place, Rest, Send, Step, Terminate, bounded, decide
from workers.lifecycle.batches.company import await_company
from workers.lifecycle.batches.place_together import PlacementKey, alike, place_each
from workers.lifecycle.step_table import write
from workers.lifecycle.steps.console import needs_console
from workers.lifecycle.steps.context import StepContext, context_from_row
from workers.lifecycle.steps.terminate import terminate_each
from workers.runtime.brakes import HELD_PAUSE, is_on_hold
from workers.runtime.bulkheads import CrowdedError
from workers.runtime.database import failure_name
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_ROUNDS = 8
"""A bound against a step that makes no progress. It exceeds the shared steps of any real path."""


class _EndPlace(NamedTuple):
    """Where VMs end with one call."""

    account: str
    region: str


_Shared = Enter | AwaitProof | _EndPlace | PlacementKey
"""What leases have in common that share a step: the step itself, where their VMs end, or where they are placed."""


class Cohort:
    """Claimed leases. `alone` moves one of them by itself: it takes the lease over, with its claim."""

    def __init__(
        self, runtime: Runtime, claimed: Mapping[LeaseId, UUID], alone: Callable[[LeaseId, UUID], object]
    ) -> None:
        self._runtime = runtime
        self._left = dict(claimed)
        self._alone = alone

    def move(self) -> None:
        """Moves the leases until each rests, or is handed to `alone`. After a failed step each lease left is."""
        try:
            for _ in range(_MOST_ROUNDS):
                if len(self._left) <= 1 or self._runtime.stopping.is_set():
                    break
                self._round()
        except DBAPIError as error:
            log.warning(failure_name(error), error=str(error.orig))
        except Exception:
            log.exception("a shared step failed: each lease is moved alone")
        self._hand_over(list(self._left))

    def _hand_over(self, lease_ids: Iterable[LeaseId]) -> None:
        for lease_id in lease_ids:
            self._alone(lease_id, self._left.pop(lease_id))

    def _round(self) -> None:
        """One step of each lease."""
        resting: dict[LeaseId, ClaimRest] = {}
        sharing: dict[_Shared, list[StepContext]] = defaultdict(list)
        for ctx in self._load():
            step = self._decide(ctx)
            shared = self._shared(ctx, step)
            if isinstance(step, Rest):
                resting[ctx.lease.id] = _rest(ctx, step)
            elif shared is not None:
                sharing[shared].append(ctx)
            else:
                self._hand_over([ctx.lease.id])
        for shared, leases in sharing.items():
            rest = self._take(shared, leases)
            if rest is not None:
                resting |= {ctx.lease.id: _rest(ctx, rest) for ctx in leases}
        if resting:
            with structlog.contextvars.bound_contextvars(lease_ids=list(resting)):
                self._runtime.database.run(claims.unclaim_each(list(resting.values())))
            for lease_id in resting:
                del self._left[lease_id]

    def _load(self) -> list[StepContext]:
        """The leases whose claims are still ours."""
        rows = self._runtime.database.all(claims.load_each(self._left))
        loaded = [context_from_row(self._runtime, row, row.claim_id) for row in rows]
        for lost in self._left.keys() - {ctx.lease.id for ctx in loaded}:
            log.info("claim lost", lease_id=lost)
            self._runtime.metrics.step_failed("claim_lost")
            del self._left[lost]
        return loaded

    def _decide(self, ctx: StepContext) -> Step:
        if is_on_hold(self._runtime.database, ctx.row):
            return Rest(ctx.now + HELD_PAUSE)
        step = decide(ctx.lease, ctx.now, self._runtime.timing)
        rest = await_company(ctx) if isinstance(step, Send) else None
        return rest or step

    def _shared(self, ctx: StepContext, step: Step) -> _Shared | None:
        match step:
            case Enter() | AwaitProof():
                return step
            case Place():
                return alike(ctx)
            case Terminate() if not needs_console(ctx) and ctx.provider.limits.terminations > 1:
                return _EndPlace(ctx.attempt.account, ctx.attempt.region)
            case _:
                return None

    def _take(self, shared: _Shared, leases: Sequence[StepContext]) -> Rest | None:
        """Executes a step for several leases. Leases that it left as they were are handed over."""
        if len(leases) == 1:
            self._hand_over([leases[0].lease.id])
            return None
        if isinstance(shared, _EndPlace):
            with self._executing("Terminate", leases):
                return self._terminate(shared, leases)
        name = "Place" if isinstance(shared, PlacementKey) else type(shared).__name__
        with self._executing(name, leases):
            moved = place_each(leases, shared.offering) if isinstance(shared, PlacementKey) else write(shared, leases)
        to = {"to": str(shared.state)} if isinstance(shared, Enter) else {}
        for ctx in moved:
            log.info("step", lease_id=ctx.lease.id, step=name, state=str(ctx.lease.state), **to)
        left = {ctx.lease.id for ctx in leases} - {ctx.lease.id for ctx in moved}
        self._hand_over(left)
        return None

    def _terminate(self, ending: _EndPlace, leases: Sequence[StepContext]) -> Rest | None:
        try:
            with self._runtime.bulkheads.inside(ending.account):
                return terminate_each(leases)
        except CrowdedError as error:
            return Rest(leases[0].now + timedelta(seconds=error.pause))

    @contextmanager
    def _executing(self, name: str, leases: Sequence[StepContext]) -> Iterator[None]:
        """Measures the step, and names its leases in log lines and traces."""
        with ExitStack() as around:
            around.enter_context(structlog.contextvars.bound_contextvars(lease_ids=[ctx.lease.id for ctx in leases]))
            around.enter_context(self._runtime.metrics.step(name, self._runtime.monotonic))
            for ctx in leases:
                around.enter_context(ctx.span(name))
            yield


def _rest(ctx: StepContext, rest: Rest) -> ClaimRest:
    until = bounded(ctx.lease, rest, ctx.now).until
    return ClaimRest(ctx.lease.id, ctx.claim_id, until, ctx.lease.wake_count)
