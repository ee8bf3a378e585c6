"""What leases would hold of budgets, and the refusal by one without room."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.prepared import Bound
from app.db.tenancy import budgets as statements
from app.db.tenancy import commitments
from app.domain.budgets import resource_of
from app.domain.money import format_money
from app.services.errors import BudgetExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNeed:
    """What a lease would hold besides of a budget that counts it and refuses. Amounts are USD."""

    budget_id: str
    amount: Decimal
    spent: Decimal
    committed: Decimal
    asked: Decimal
    resets_at: datetime | None

    @property
    def fits(self) -> bool:
        """Whether the budget has room."""
        return self.asked <= 0 or self.spent + self.committed + self.asked <= self.amount

    def refusal(self) -> BudgetExceeded:
        """The error when it does not fit."""
        amounts = {"budget": self.amount, "spent": self.spent, "committed": self.committed, "asked": self.asked}
        texts = {name: format_money(amount) for name, amount in amounts.items()}
        resets_at = None if self.resets_at is None else self.resets_at.isoformat().replace("+00:00", "Z")
        detail = (
            f"Budget exceeded: {texts['asked']} USD asked, and of {texts['budget']} USD {texts['spent']} are spent and "
            f"{texts['committed']} committed."
        )
        return BudgetExceeded(detail, extra={"budget_id": self.budget_id, **texts, "resets_at": resets_at})


async def budget_needs(connection: AsyncConnection, asked: Bound[Any], *, within: str | None) -> tuple[BudgetNeed, ...]:
    """What `asked`, a statement of (id, asked), would hold of each budget that refuses."""
    requested = {row.id: row.asked for row in (await connection.execute(*asked)).all()}
    rows = (await connection.execute(statements.of_ids(list(requested), within=within))).all() if requested else ()
    return tuple(
        BudgetNeed(
            budget_id=row.id,
            amount=row.amount,
            spent=row.spent,
            committed=row.committed,
            asked=requested[row.id],
            resets_at=row.period_ends_at,
        )
        for row in rows
    )


async def budget_refusal(
    connection: AsyncConnection, tenant_id: str, asked: Bound[Any], *, within: str | None
) -> BudgetExceeded | None:
    """The refusal by the first budget without room for `asked`. None: all have room, or have it now.

    What leases hold above what they may cost is returned before. A refusal rolls that back, and states the amounts of
    before.
    """
    short = {need.budget_id: need for need in await _short_of(connection, asked, within)}
    resources = [resource_of(budget_id) for budget_id in short]
    if resources and await connection.run_sync(commitments.return_excess, tenant_id, resources):
        left = {need.budget_id for need in await _short_of(connection, asked, within)}
        short = {budget_id: need for budget_id, need in short.items() if budget_id in left}
    return next((need.refusal() for need in short.values()), None)


async def _short_of(connection: AsyncConnection, asked: Bound[Any], within: str | None) -> list[BudgetNeed]:
    return [need for need in await budget_needs(connection, asked, within=within) if not need.fits]
