"""Budgets between requests: periods begin, claims follow prices, thresholds get events, and leases end.

Each part repeats safely, and beside itself in another process. Locks are taken in the order tenant, budget, lease,
quota, and no part waits for a lease that a step holds while it holds others.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.db.events import events
from app.db.leases import transitions
from app.db.operations.brakes import IS_HELD
from app.db.tenancy import budgets, commitments
from app.domain.budgets import BudgetKind, Holder, Period, to_release, untold
from app.domain.events import BudgetThreshold
from app.domain.ids import LeaseId, TenantId
from app.domain.money import format_money
from app.domain.reasons import Origin, Reason, ReasonCode
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_LEASES = 500
"""Leases whose claims one run changes: the rest follows in the next run."""


def apply_budgets(runtime: Runtime, _account: str, _region: str) -> int:
    """Returns the number of budgets rolled, claims changed, events written and leases ended."""
    return _roll(runtime) + _fit(runtime) + _tell(runtime) + _end(runtime)


def _roll(runtime: Runtime) -> int:
    count = 0
    for row in runtime.database.all(commitments.DUE):
        with runtime.database.begin() as connection:
            count += commitments.roll(connection, row.tenant_id)
    return count


def _fit(runtime: Runtime) -> int:
    """Leases that a step holds have their turn in the next run."""
    count = 0
    rows = runtime.database.all(commitments.outdated(_LEASES))
    for _, leases in groupby(rows, key=lambda row: row.tenant_id):
        with runtime.database.begin() as connection:
            count += commitments.fit_free(connection, [row.lease_id for row in leases])
    return count


# --- thresholds -------------------------------------------------------------------------------------------


def _tell(runtime: Runtime) -> int:
    return sum(_tell_one(runtime, row) for row in runtime.database.all(budgets.TO_TELL))


def _tell_one(runtime: Runtime, row: Row[Any]) -> int:
    passed = untold(row.thresholds, row.threshold_told, row.spent, row.amount)
    if not passed:
        return 0
    with runtime.database.begin() as connection:
        mark = budgets.told(row.id, passed[-1], before=row.threshold_told, since=row.period_started_at)
        if connection.execute(mark).first() is None:
            return 0
        for threshold in passed:
            event = events.NewEvent(_threshold(row, threshold))
            connection.execute(events.append(TenantId(row.tenant_id), event))
    return len(passed)


def _threshold(row: Row[Any], threshold: int) -> BudgetThreshold:
    return BudgetThreshold(
        budget_id=row.id,
        kind=BudgetKind(row.kind),
        key_id=row.key_id,
        label=None if row.label_key is None else f"{row.label_key}:{row.label_value}",
        period=Period(row.period),
        threshold=threshold,
        amount=format_money(row.amount),
        spent=format_money(row.spent),
        committed=format_money(row.committed),
        resets_at=row.period_ends_at,
    )


# --- the action `end` -------------------------------------------------------------------------------------


def _end(runtime: Runtime) -> int:
    if runtime.database.first(IS_HELD) is not None:
        return 0
    count = 0
    for row in runtime.database.all(budgets.TO_END):
        with runtime.database.begin() as connection:
            count += _end_leases(connection, row.id)
    return count


def _end_leases(connection: Connection, budget_id: str) -> int:
    """The budget's row is locked meanwhile: nobody raises its amount."""
    budget = connection.execute(budgets.lock(budget_id, within=None)).first()
    if budget is None or budget.when_exceeded != "end":
        return 0
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
