"""Costs: what leases have cost and will cost."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import CostItem, Costs, Forecast
from gpulease_client.responses import params_of

When = datetime | str | None


class AsyncCostReports(AsyncResource):
    """`/v1/costs` and `/v1/forecast`. `start` and `end` are the API's `from` and `to`."""

    async def get(self, *, start: When = None, end: When = None, **filters: Any) -> Costs:
        """The first page of lines, and the total of the whole range: `get(start=monday, bucket="day", group_by="gpu_model")`."""
        query = params_of({"from": start, "to": end, **filters})
        return await self._call(Costs, "GET", "/v1/costs", params=query)

    def list(self, *, start: When = None, end: When = None, **filters: Any) -> AsyncIterator[CostItem]:
        """All lines, page after page."""
        return self._iterate(CostItem.from_dict, "/v1/costs", {"from": start, "to": end, **filters})

    async def forecast(self, **filters: Any) -> Forecast:
        """What the month will cost, and when budgets are used up."""
        return await self._call(Forecast, "GET", "/v1/forecast", params=params_of(filters))
