"""Bodies and views about forecasts of costs."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View


class MonthForecast(View):
    """The present month (UTC)."""

    spent: Annotated[Money, Field(description="USD until `as_of`.")]
    committed: Annotated[
        Money,
        Field(
            description="USD that today's leases cost until they or the month end, and volumes until the month ends."
        ),
    ]
    forecast: Annotated[Money, Field(description="USD at the end of the month, when the present rate stays.")]
    ends_at: Annotated[Moment, Field(description="The end of the month.")]


class BudgetForecast(View):
    """A budget at the present rate of the leases and volumes that it counts."""

    id: str
    exhausted_at: Annotated[
        Moment | None, Field(description="When the amount is spent. Null: not in the present period.")
    ]


class Forecast(View):
    """What will be spent at the present rate."""

    as_of: Moment
    currency: Annotated[str, Field(examples=["USD"])]
    run_rate_per_hour: Annotated[Money, Field(description="USD an hour of all leases and volumes that are billed.")]
    month: Annotated[MonthForecast, Field(description="The present month.")]
    budgets: Annotated[list[BudgetForecast], Field(description="By id.")]
