"""An httpx client that repeats what is safe to repeat, and raises the errors of this package."""

from asyncio import sleep
from typing import Any

import httpx

from gpulease_client.errors import UnreachableError
from gpulease_client.responses import error_of
from gpulease_client.retries import Retries, add_key


class AsyncHttp(httpx.AsyncClient):
    """Sends a request until it has a response below 400. The generated core and the resources share one."""

    def __init__(self, *, retries: Retries, **options: Any) -> None:
        super().__init__(**options)
        self.retries = retries

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Returns a response that is no error. Raises ApiError, UnexpectedResponseError or UnreachableError."""
        add_key(request)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await super().send(request, **options)
            except httpx.TransportError as error:
                pause = self.retries.after_failure(request, error, attempt)
                if pause is None:
                    raise UnreachableError(
                        f"{request.method} {request.url}: {error or type(error).__name__}"
                    ) from error
            else:
                if not response.is_error:
                    return response
                await response.aread()
                await response.aclose()
                pause = self.retries.after_response(request, response, attempt)
                if pause is None:
                    raise error_of(response)
            await sleep(pause)
