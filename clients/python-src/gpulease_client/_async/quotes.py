"""Quotes: prices that hold for some minutes."""

from collections.abc import Mapping
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import NewLease, Quote
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncQuotes(AsyncResource):
    """`/v1/quotes`."""

    async def create(self, request: NewLease | Mapping[str, Any] | None = None, /, **fields: Any) -> Quote:
        """The price of a lease that is requested in the same way. `leases.create(quote_id=quote.id)` creates it."""
        return await self._call(Quote, "POST", "/v1/quotes", json=body_of(request, fields))

    async def get(self, quote_id: str) -> Quote:
        """One quote."""
        return await self._call(Quote, "GET", path_of("/v1/quotes", quote_id))
