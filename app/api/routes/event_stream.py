"""A live event stream with server-sent events (WHATWG HTML, section 9.2)."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from app.api.http.auth import Gate
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.routes.events import LARGEST_NUMBER, event_json
from app.api.schemas.events import UseStreamFilter
from app.services.context import DatabaseUnavailable
from app.services.errors import FieldError, InvalidRequest, Unauthenticated
from app.services.event_stream import Batch, StreamEvent
from app.services.principal import Principal

router = make_router("events")

HEARTBEAT_SECONDS = 15.0
_MEDIA = "text/event-stream"
_DESCRIPTION = (
    "An endless stream of server-sent events. The schema describes each message. At the start the server sends an `id` "
    "without data: the position of the stream, for `Last-Event-ID`. It sends a comment after 15 s without an event."
)
_SCHEMA = {"$ref": "#/components/schemas/EventStreamMessage"}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": _DESCRIPTION, "content": {_MEDIA: {"schema": _SCHEMA}}}
}
_BEGINNING = b"retry: 2000\nid: %d\n\n"
"""An id without data is no message. The client sends it as `Last-Event-ID` if the connection breaks before an event."""
_STILL_HERE = b": still here\n\n"

LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=LARGEST_NUMBER,
        description="Resume after this event. Browsers send this header on reconnect.",
    ),
]


@router.get("/v1/events/stream", response_class=Response, responses=_RESPONSES)
async def stream_events(
    request: Request,
    principal: Viewer,
    services: UseServices,
    criteria: UseStreamFilter,
    after: Annotated[
        int | None,
        Query(ge=0, le=LARGEST_NUMBER, description="Start after this `sequence`. Absent: send only new events."),
    ] = None,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Stream events as they happen. A client that resumes after the last event it received misses no event."""
    if principal.tenant_id is not None and criteria.tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    begin = after if last_event_id is None else last_event_id
    await services.events.require_kept(begin)
    criteria = replace(criteria, tenant_id=principal.tenant_id or criteria.tenant_id)
    batches = services.streams.follow(principal, criteria, after=begin, heartbeat_seconds=HEARTBEAT_SECONDS)
    begin = (await anext(batches)).position
    return StreamingResponse(
        _text(request, principal, batches, begin), media_type=_MEDIA, headers={"X-Accel-Buffering": "no"}
    )


async def _text(
    request: Request, principal: Principal, batches: AsyncIterator[Batch], begin: int
) -> AsyncIterator[bytes]:
    """The stream ends when the key becomes invalid or the database is unavailable.

    The client reconnects and receives the error.
    """
    gate: Gate = request.app.state.gate
    yield _BEGINNING % begin
    with contextlib.suppress(Unauthenticated, DatabaseUnavailable):
        async for batch in batches:
            await gate.check_again(request, principal)
            yield b"".join(map(_frame, batch.events)) or _STILL_HERE


def _frame(numbered: StreamEvent) -> bytes:
    if numbered.rendered is None:
        numbered.rendered = b"id: %d\nevent: %s\ndata: %s\n\n" % (
            numbered.sequence,
            numbered.row.type.encode(),
            to_json(event_json(numbered.row)),
        )
    return numbered.rendered
