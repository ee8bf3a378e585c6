"""The Idempotency-Key header."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

from fastapi import Header, Request, Response
from pydantic import BaseModel

from app.api.http.responses import answer
from app.api.schemas.patterns import IDEMPOTENCY_KEY
from app.services.idempotency import IdempotencyKey, Reply
from app.services.principal import Principal

IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=IDEMPOTENCY_KEY.regex,
        description="Repeating a request with the same API key, Idempotency-Key and body gives the first answer again. Kept 72 hours.",
    ),
]


def idempotency_key(
    request: Request, principal: Principal, key: str | None, body: BaseModel | None
) -> IdempotencyKey | None:
    """What the service needs to notice a repetition; None when the caller sent no key.

    The path counts with its ids, so that one key may be used for two leases' extensions. The API key counts too: each
    agent finds its own leases.
    """
    if key is None:
        return None
    content = b"" if body is None else body.model_dump_json().encode()
    return IdempotencyKey(
        scope=principal.scope,
        key=f"{principal.key_id} {key}",
        route=f"{request.method} {request.url.path}",
        body_hash=hashlib.sha256(content).digest(),
    )


async def respond(call: AbstractAsyncContextManager[Reply], render: Callable[[Any], bytes], *, status: int) -> Response:
    """Runs a service call that may be repeated. `render` makes the response from the row that the service returns."""
    async with call as reply:
        if not reply.replayed:
            reply.content = render(reply.row)
    return created(reply.content, status=status, location=reply.location, replayed=reply.replayed)


def created(model: BaseModel | bytes, *, status: int = 201, location: str | None = None, replayed: bool) -> Response:
    """The answer of a creating call, first or repeated."""
    headers: dict[str, Any] = {"Idempotency-Replayed": "true"} if replayed else {}
    if location is not None:
        headers["Location"] = location
    return answer(model, status, headers)
