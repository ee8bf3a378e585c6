"""Budgets: what leases may cost in a period."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Budget
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncBudgets(AsyncResource):
    """`/v1/budgets`."""

    async def create(self, **fields: Any) -> Budget:
        """Creates a budget: `create(scope={"kind": "tenant"}, period="month", amount="5000")`."""
        return await self._call(Budget, "POST", "/v1/budgets", json=body_of(None, fields))

    async def get(self, budget_id: str) -> Budget:
        """One budget: what is spent, committed and available."""
        return await self._call(Budget, "GET", path_of("/v1/budgets", budget_id))

    def list(self, **filters: Any) -> AsyncIterator[Budget]:
        """All budgets that this key can read, page after page."""
        return self._iterate(Budget.from_dict, "/v1/budgets", filters)

    async def update(self, budget_id: str, **fields: Any) -> Budget:
        """Changes `amount`, `thresholds` or `when_exceeded`."""
        return await self._call(Budget, "PATCH", path_of("/v1/budgets", budget_id), json=body_of(None, fields))

    async def delete(self, budget_id: str) -> None:
        """Deletes a budget. Its leases continue."""
        await self._http.request("DELETE", path_of("/v1/budgets", budget_id))
