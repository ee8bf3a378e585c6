"""What will be spent."""

from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.forecast import BudgetForecast, Forecast, MonthForecast
from app.api.schemas.lease_filters import QueryText
from app.services.money import forecast as service
from app.services.preconditions import list_tag

router = make_router("costs")


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


def _forecast(forecast: service.Forecast) -> Forecast:
    month: dict[str, Any] = {"spent": forecast.spent, "committed": forecast.committed, "forecast": forecast.forecast}
    return Forecast(
        as_of=forecast.as_of,
        currency="USD",
        run_rate_per_hour=forecast.run_rate_per_hour,
        month=MonthForecast(**month, ends_at=forecast.month_ends_at),
        budgets=[BudgetForecast(id=budget.id, exhausted_at=budget.exhausted_at) for budget in forecast.budgets],
    )
