"""Usage: GPUs, cost and failures over time, and the present state."""

from datetime import datetime
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Summary, Usage
from gpulease_client.responses import params_of


class AsyncUsageReports(AsyncResource):
    """`/v1/usage` and `/v1/summary`."""

    async def get(
        self, *, start: datetime | str | None = None, end: datetime | str | None = None, **filters: Any
    ) -> Usage:
        """Use by hour or day: `get(start=monday, step="day", group_by="gpu_model")`. `start` and `end` are the API's `from` and `to`."""
        query = params_of({"from": start, "to": end, **filters})
        return await self._call(Usage, "GET", "/v1/usage", params=query)

    async def summary(self, **filters: Any) -> Summary:
        """Leases by state, GPUs, spend, and what needs attention."""
        return await self._call(Summary, "GET", "/v1/summary", params=params_of(filters))
