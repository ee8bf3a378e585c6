"""Budgets between requests: periods begin, claims follow prices, thresholds get events, and leases end.

Tenants take turns. What fails for one budget, lane, part or tenant is logged, and the job continues with the next.
Each transaction handles a bounded number of rows.

Each part repeats safely, and beside itself in another process. Locks are taken in the order tenant, budget, lease,
quota. Claims that follow a price wait for no lease that a step holds. A decision to end leases waits for all leases of its
budget.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.db.core.prepared import Bound
from app.db.leases import transitions
from app.db.operations.brakes import IS_HELD
from app.db.tenancy import budget_turns, budgets, commitments, thresholds, volume_costs
from app.domain.budgets import Holder, resource_of, to_release, without_event
from app.domain.ids import LeaseId
from app.domain.money import format_money
from app.domain.reasons import Origin, Reason, ReasonCode
from workers.runtime.database import is_outage
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_PAIRS = 4000
"""Pairs of a lease and a budget that one transaction looks at."""
_BATCHES = 4
"""Transactions of a lane in one turn: the rest follows in the next run."""
_ROLLED = 20
_TOLD = 20
_ENDED = 10
"""Budgets of one turn: whose periods begin, whose thresholds are reached, and whose leases end."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A tenant's turn. `batch`: leases that one transaction looks at. `positions`: where lanes went on at its start."""

    runtime: Runtime
    tenant_id: str
    batch: int
    positions: dict[str, str]

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with self.runtime.database.begin() as connection:
            connection.execute(budget_turns.SHORT)
            yield connection

    def move(self, lane: str, position: str) -> None:
        """Called before the work: work that fails does not keep the lane where it is."""
        self.positions[lane] = position
        self.runtime.database.run(budget_turns.move(self.tenant_id, {lane: position}))

    def page(self, lane: str, page: Callable[[str, str, int], Bound[Any]], most: int) -> list[str]:
        """The next ids of a lane of budgets."""
        after = self.positions.get(lane, "")
        with self.begin() as connection:
            ids = [row.id for row in connection.execute(*page(self.tenant_id, after, most)).all()]
        last = ids[-1] if len(ids) == most else ""
        if last != after:
            self.move(lane, last)
        return ids


def apply_budgets(runtime: Runtime, _account: str, _region: str) -> int:
    """Returns the number of budgets rolled, volumes charged, claims changed, events written and leases ended."""
    count = 0
    for row in runtime.database.all(budget_turns.LINE):
        runtime.database.run(budget_turns.take(row.tenant_id))
        turn = _Turn(runtime, row.tenant_id, max(1, _PAIRS // row.width), dict(row.positions))
        count += sum(_attempt(turn, part) for part in (_roll, _charge, _fit, _tell, _end))
    return count


def _attempt(turn: _Turn, part: Callable[..., int], *arguments: Any) -> int:
    """The outermost handler for one part of a tenant's turn, or for one lane or budget in it."""
    try:
        return part(turn, *arguments)
    except DBAPIError as error:
        if is_outage(error):
            raise
        log.warning("budgets not applied", tenant_id=turn.tenant_id, part=part.__name__, error=str(error.orig))
        turn.runtime.metrics.job_failed("budgets", None, type(error).__name__)
    except Exception as error:
        log.exception("budgets not applied", tenant_id=turn.tenant_id, part=part.__name__)
        turn.runtime.metrics.job_failed("budgets", None, type(error).__name__)
    return 0


def _roll(turn: _Turn) -> int:
    with turn.begin() as connection:
        return commitments.roll(connection, turn.tenant_id, most=_ROLLED)


def _charge(turn: _Turn) -> int:
    """What volumes cost, up to the last full hour of each. The rest of a tenant with very many follows in the next run."""
    with turn.begin() as connection:
        return len(connection.execute(*volume_costs.charge(turn.tenant_id)).all())


def _fit(turn: _Turn) -> int:
    """Leases that a step holds have their turn in the next run."""
    return sum(_attempt(turn, _fit_lane, lane) for lane in budget_turns.LANES)


def _fit_lane(turn: _Turn, lane: str) -> int:
    count = 0
    for _ in range(_BATCHES):
        with turn.begin() as connection:
            after = turn.positions.get(lane)
            rows = connection.execute(*budget_turns.leases(lane, turn.tenant_id, after, turn.batch)).all()
        if not rows:
            return count
        at_end = len(rows) < turn.batch
        turn.move(lane, rows[-1].again if at_end else rows[-1].position)
        with turn.begin() as connection:
            count += commitments.fit_outdated(connection, [row.id for row in rows])
        if at_end:
            return count
    return count


# --- thresholds -------------------------------------------------------------------------------------------


def _tell(turn: _Turn) -> int:
    ids = turn.page("told", budget_turns.near_threshold, _TOLD)
    if not ids:
        return 0
    with turn.begin() as connection:
        rows = connection.execute(budgets.with_amounts(ids)).all()
    return sum(_attempt(turn, _tell_one, row) for row in rows)


def _tell_one(turn: _Turn, row: Any) -> int:
    passed = without_event(row.thresholds, row.threshold_told, row.spent, row.amount)
    if not passed:
        return 0
    with turn.begin() as connection:
        mark = budgets.mark_threshold(row.id, passed[-1], before=row.threshold_told, since=row.period_started_at)
        if connection.execute(mark).first() is None:
            return 0
        return thresholds.append(connection, row, passed)


# --- the action `end` -------------------------------------------------------------------------------------


def _end(turn: _Turn) -> int:
    if turn.runtime.database.first(IS_HELD) is not None:
        return 0
    return sum(_attempt(turn, _end_one, budget_id) for budget_id in turn.page("ended", budget_turns.exceeded, _ENDED))


def _end_one(turn: _Turn, budget_id: str) -> int:
    with turn.begin() as connection:
        return _end_leases(connection, budget_id)


def _end_leases(connection: Connection, budget_id: str) -> int:
    """Decides on what the leases hold now. The budget's row is locked meanwhile: nobody raises its amount."""
    budget = connection.execute(budgets.lock(budget_id, within=None)).first()
    if budget is None or budget.when_exceeded != "end":
        return 0
    commitments.fit_budget(connection, budget.tenant_id, resource_of(budget_id))
    spent = connection.execute(budgets.spent_by_ended(budget.tenant_id, budget_id)).scalar_one()
    rows: Iterable[Any] = connection.execute(*budgets.holders(budget.tenant_id, budget_id)).mappings()
    chosen = to_release([Holder(**row) for row in rows], spent=spent, amount=budget.amount)
    message = f"the leases that budget {budget_id} counts would cost more than its {format_money(budget.amount)} USD"
    reason = Reason(ReasonCode.BUDGET_EXCEEDED, message, Origin.SYSTEM)
    ended = 0
    connection.execute(*transitions.locked(chosen))
    for lease_id in sorted(chosen):
        ended += connection.execute(*transitions.request_end(LeaseId(lease_id), reason, None)).rowcount
    if ended:
        log.info("leases end because a budget is exceeded", budget_id=budget_id, leases=ended)
    return ended
