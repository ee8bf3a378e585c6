"""What will be spent until the end of the month, and when budgets are exhausted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from app.db.core.tenant_scope import parameter
from app.db.usage import forecast as statements
from app.db.usage.facts import AS_OF
from app.domain.costs import CostBucket
from app.domain.forecast import exhausted_at, month_forecast
from app.services.context import ServiceContext
from app.services.money.costs import spent_since
from app.services.money.usage import tenant_of
from app.services.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetForecast:
    """`exhausted_at` None: not in the present period, at the present rate."""

    id: str
    exhausted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """USD. `committed`: what live leases cost until they or the month end. `forecast`: when the present rate stays."""

    as_of: datetime
    run_rate_per_hour: Decimal
    month_ends_at: datetime
    spent: Decimal
    committed: Decimal
    forecast: Decimal
    budgets: Sequence[BudgetForecast]


class ForecastService:
    """Reads live leases and budgets; the spend of the month comes from the sums of costs."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def of_tenant(self, principal: Principal, tenant_id: str | None) -> Forecast:
        """`tenant_id` None: the caller's tenant, for operators all tenants. Raises InvalidRequest for another tenant."""
        within = tenant_of(principal, tenant_id)
        month = CostBucket.MONTH
        every_tenant = within is None
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            as_of, spent = await spent_since(connection, within, month)
            ends_at = month.after(month.floor(as_of))
            values = {AS_OF: as_of, **parameter(within)}
            query = statements.live_leases(every_tenant=every_tenant)
            live = (await connection.execute(query, {**values, statements.MONTH_ENDS: ends_at})).one()
            budgets = (await connection.execute(statements.budgets(every_tenant=every_tenant), values)).all()
        return Forecast(
            as_of=as_of,
            run_rate_per_hour=live.run_rate,
            month_ends_at=ends_at,
            spent=spent,
            committed=live.committed,
            forecast=month_forecast(spent, live.run_rate, as_of, ends_at),
            budgets=[
                BudgetForecast(
                    id=row.id,
                    exhausted_at=exhausted_at(
                        row.amount,
                        spent=row.spent,
                        rate_per_hour=row.run_rate,
                        as_of=row.counted_at,
                        period_ends_at=row.period_ends_at,
                    ),
                )
                for row in budgets
            ],
        )
