"""The route of samples: ten thousand agents report each minute, so nothing is done that is not needed."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from app.api.http.auth import Gate, bearer
from app.api.http.body_limits import announced_length, limited, too_large
from app.api.http.query_parameters import check_query
from app.api.http.responses import JSON
from app.api.http.routing import TokenRoute
from app.domain.gpus.reports import LONGEST_REPORT
from app.services.errors import BodyTooLarge, InvalidToken, UnsupportedMediaType
from app.services.gpus.samples import GpuSampleService


class SampleRoute(TokenRoute):
    """Calls its endpoint with the request alone, and leaves the token to the statement that stores the samples.

    FastAPI's solving of dependencies costs more than parsing a sample, and a query for the token as much as storing it.
    """

    largest_body = LONGEST_REPORT

    async def find(self, request: Request, token: str) -> bool:
        """Whether the token belongs to the newest attempt of a lease, and the attempt has not ended."""
        samples: GpuSampleService = request.app.state.services.gpu_samples
        return await samples.is_known(token)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint behind the checks of the token and of the size."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint

        async def checked(request: Request) -> Response:
            gate: Gate = request.app.state.gate
            check_query(request, frozenset())
            if gate.has_refused_many(request):
                await gate.admit_token(request, lambda token: self.find(request, token))
            try:
                return await endpoint(request)
            except InvalidToken:
                gate.count_refused_token(request)
                raise

        return checked


async def read_report(request: Request, refused: Callable[[str | None], Awaitable[None]]) -> bytes:
    """The body. Raises UnsupportedMediaType and BodyTooLarge, after `refused` has counted it for the request's token."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        await refused(bearer(request))
        raise UnsupportedMediaType
    if announced_length(request.scope) <= LONGEST_REPORT:
        try:
            return await Request(request.scope, limited(request.receive, LONGEST_REPORT)).body()
        except HTTPException as error:
            if error.status_code != BodyTooLarge.status:
                raise
    await refused(bearer(request))
    raise BodyTooLarge(too_large(LONGEST_REPORT))
