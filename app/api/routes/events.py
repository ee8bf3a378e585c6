"""Lists of events, in an order that never changes. The live stream is `event_stream.py`."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.events import EventPage, UseEventFilter, UseLeaseEventFilter
from app.api.schemas.lease_filters import QueryText
from app.domain.list_filters import EventRange, EventSort
from app.services.cursors import RowPage
from app.services.errors import FieldError, InvalidRequest
from app.services.events import cursor_kind
from app.services.preconditions import list_tag

router = make_router("events")

LARGEST_NUMBER = 2**63 - 1


async def _range(
    page: UsePage,
    after: Annotated[
        int | None,
        Query(
            ge=0,
            le=LARGEST_NUMBER,
            description="Only events after this `sequence`. Set it to the last one received, or use `cursor`.",
        ),
    ] = None,
    sort: Annotated[
        EventSort,
        Query(
            description="`created_at` begins with the oldest stored event, `-created_at` with the newest. "
            "Both are orders of `sequence`."
        ),
    ] = EventSort.CREATED_AT,
) -> EventRange:
    """The events after `after`, and those that follow `cursor` in the order of the list."""
    parts = page.after(cursor_kind(sort))
    if parts is None:
        return EventRange(after=after, sort=sort)
    if not (parts[0].isascii() and parts[0].isdigit() and int(parts[0]) <= LARGEST_NUMBER):
        raise InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
    last = int(parts[0])
    if sort is EventSort.CREATED_AT:
        return EventRange(after=last, sort=sort)
    return EventRange(after=after, before=last, sort=sort)


UseRange = Annotated[EventRange, Depends(_range)]


@router.get("/v1/events", response_model=EventPage)
async def list_events(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    span: UseRange,
    criteria: UseEventFilter,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List events of the tenant's leases, oldest first unless `sort` is set. Operators list events of all tenants."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    named = replace(criteria, tenant_id=tenant_id)
    matches = await services.events.of_tenant(principal, named, span=span, page=page)
    return event_page(request, matches)


@router.get("/v1/leases/{lease_id}/events", response_model=EventPage)
async def list_lease_events(
    request: Request,
    lease_id: str,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    span: UseRange,
    criteria: UseLeaseEventFilter,
) -> Response:
    """List the events of a lease, oldest first unless `sort` is set."""
    return event_page(request, await services.events.of_lease(principal, lease_id, criteria, span=span, page=page))


def event_page(request: Request, matches: RowPage) -> Response:
    """A page of events with its ETag, or 304."""
    tag = list_tag(((row.id, row.sequence) for row in matches.rows), also=matches.position)
    items = [event_json(row) for row in matches.rows]
    content = {"items": items, "next_cursor": matches.next_cursor, "total_count": matches.total_count}
    return tagged(request, to_json(content), tag)


def event_json(row: Any) -> dict[str, Any]:
    """Converts a row of `events_read` to an Event."""
    return {
        "id": row.id,
        "sequence": row.sequence,
        "tenant_id": row.tenant_id,
        "lease_id": row.lease_id,
        "lease_sequence": row.lease_sequence,
        "type": row.type,
        "data": row.data,
        "request_id": row.request_id,
        "created_at": row.created_at,
    }
