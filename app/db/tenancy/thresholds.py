"""The event of a budget's threshold, from a row of the budget with what is spent and committed."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from app.db.events import events
from app.domain.budgets import BudgetKind, Period
from app.domain.events import BudgetThreshold
from app.domain.ids import TenantId
from app.domain.money import format_money


def append(connection: Connection, row: Any, thresholds: Iterable[int]) -> int:
    """Appends an event for each threshold (percent). Returns their number."""
    count = 0
    for threshold in thresholds:
        connection.execute(events.append(TenantId(row.tenant_id), events.NewEvent(_reached(row, threshold))))
        count += 1
    return count


def _reached(row: Any, threshold: int) -> BudgetThreshold:
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
