"""What will be spent."""

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Money, View
from app.api.schemas.lease_filters import QueryText
from app.services import forecast as service
from app.services.preconditions import list_tag

router = make_router("costs")


class MonthForecast(View):
    """The present month (UTC)."""

    spent: Annotated[Money, Field(description="USD until `as_of`.")]
    committed: Annotated[Money, Field(description="USD that today's leases cost until they or the month end.")]
    forecast: Annotated[Money, Field(description="USD at the end of the month, when the present rate stays.")]
    ends_at: Annotated[Moment, Field(description="The end of the month.")]


class BudgetForecast(View):
    """A budget at the present rate of the leases that it counts."""

    id: str
    exhausted_at: Annotated[
        Moment | None, Field(description="When the amount is spent. Null: not in the present period.")
    ]


class Forecast(View):
    """What will be spent at the present rate."""

    as_of: Moment
    currency: Annotated[str, Field(examples=["USD"])]
    run_rate_per_hour: Annotated[Money, Field(description="USD an hour of all leases that are billed.")]
    month: Annotated[MonthForecast, Field(description="The present month.")]
    budgets: Annotated[list[BudgetForecast], Field(description="By id.")]


@router.get("/v1/forecast", response_model=Forecast)
@costly
async def get_forecast(
    request: Request,
    principal: Viewer,
    services: UseServices,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
) -> Response:
    """Read the run rate, the spend until the end of the month, and when each budget is exhausted."""
    content = _forecast(await services.forecast.of_tenant(principal, tenant_id)).model_dump_json()
    return tagged(request, content.encode(), list_tag((), also=content))


def _forecast(found: service.Forecast) -> Forecast:
    month: dict[str, Any] = {"spent": found.spent, "committed": found.committed, "forecast": found.forecast}
    return Forecast(
        as_of=found.as_of,
        currency="USD",
        run_rate_per_hour=found.run_rate_per_hour,
        month=MonthForecast(**month, ends_at=found.month_ends_at),
        budgets=[BudgetForecast(id=one.id, exhausted_at=one.exhausted_at) for one in found.budgets],
    )
