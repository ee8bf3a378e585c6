"""Offerings: what can be leased, and its price."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Offering


class AsyncOfferings(AsyncResource):
    """`/v1/offerings`."""

    def list(self, **filters: Any) -> AsyncIterator[Offering]:
        """All offerings that match, the cheapest first. Filters are the query parameters, for example `region`."""
        return self._iterate(Offering.from_dict, "/v1/offerings", filters)
