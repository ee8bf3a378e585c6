"""How control calls are read, and how a call that makes no sense is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cloudsim.world import WorldError

B = TypeVar("B", bound=BaseModel)
Endpoint = Callable[[Request], Awaitable[Response]]


def _refusal(detail: str, errors: Any = None) -> Response:
    return JSONResponse({"detail": detail, "errors": errors or []}, status_code=422)


def guarded(endpoint: Endpoint) -> Endpoint:
    """Turn what does not validate or makes no sense into a 422 that says so."""

    async def call(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ValidationError as error:
            return _refusal(
                "the body is not valid", error.errors(include_url=False, include_context=False, include_input=False)
            )
        except WorldError as error:
            return _refusal(str(error))

    return call


async def read(request: Request, model: type[B]) -> B:
    """The call's body. Raises ValidationError."""
    return model.model_validate_json(await request.body() or b"{}")
