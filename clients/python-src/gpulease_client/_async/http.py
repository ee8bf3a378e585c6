"""An httpx client that repeats what is safe to repeat, and raises the errors of this package."""

from asyncio import sleep
from typing import Any

import httpx

from gpulease_client.errors import UnreachableError
from gpulease_client.paths import check_path
from gpulease_client.responses import error_of, is_of_api, media_type
from gpulease_client.retries import Retries, add_key, is_gone, may_be_done, with_key


class AsyncHttp(httpx.AsyncClient):
    """Sends a request until it has an answer of the API below 400. The generated core and the resources share one."""

    def __init__(self, *, retries: Retries, **options: Any) -> None:
        super().__init__(**options)
        self.retries = retries

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        """As the base class. Raises InvalidValueError for a path that does not equal its normal form."""
        return super().build_request(method, check_path(str(url)), **options)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Returns an answer of the API that is no error.

        Raises ApiError, UnexpectedResponseError or UnreachableError. The error has the idempotency key of a request that
        may have been carried out.
        """
        add_key(request)
        attempt, done = 0, False
        while True:
            attempt += 1
            try:
                response = await super().send(request, **options)
                if response.is_success and options.get("stream") and media_type(response) != "text/html":
                    return response
                await response.aread()
            except httpx.RequestError as error:
                done = may_be_done(error, done)
                pause = self.retries.after_failure(request, error, attempt)
                if pause is None:
                    name = f"{request.method} {request.url}: {error or type(error).__name__}"
                    raise with_key(UnreachableError(name), request, done) from error
            else:
                answer = _answer(request, response, done=done)
                if answer is not None:
                    return answer
                await response.aclose()
                done = may_be_done(response, done)
                pause = self.retries.after_response(request, response, attempt)
                if pause is None:
                    raise with_key(error_of(response), request, done)
            await sleep(pause)


def _answer(request: httpx.Request, response: httpx.Response, *, done: bool) -> httpx.Response | None:
    """The answer of the API that is no error. `done`: an earlier attempt may have been carried out."""
    if response.is_success and is_of_api(request, response):
        return response
    return httpx.Response(204, request=request) if done and is_gone(request, response) else None
