"""What the resources share: a call with a typed result, and pages."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from gpulease_client._async.http import AsyncHttp
from gpulease_client.responses import Model, params_of, parsed

M = TypeVar("M", bound=Model)
T = TypeVar("T")


class AsyncResource:
    """A part of the API, over the connection of a client."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def _call(self, model: type[M], method: str, path: str, **options: Any) -> M:
        response = await self._http.request(method, path, **options)
        return parsed(model.from_dict, response)

    async def _iterate(
        self, parse: Callable[[dict[str, Any]], T], path: str, filters: dict[str, Any]
    ) -> AsyncIterator[T]:
        """All items, page after page. The next page is read when its first item is needed."""
        params = params_of(filters)
        while True:
            response = await self._http.get(path, params=params)
            items, cursor = parsed(
                lambda page: ([parse(item) for item in page["items"]], page.get("next_cursor")), response
            )
            for item in items:
                yield item
            if not cursor:
                return
            params = {**params, "cursor": cursor}
