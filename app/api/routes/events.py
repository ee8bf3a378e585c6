"""Events, in an order that never changes."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import Field
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Details, Moment, View
from app.api.schemas.lease_filters import QueryText
from app.services.errors import FieldError, InvalidRequest
from app.services.events import KIND
from app.services.leases import RowPage
from app.services.preconditions import list_tag

router = make_router("events")

LARGEST_NUMBER = 2**63 - 1


class Event(View):
    """An event. `type` is an open list (see docs/states.md); `data` depends on `type`."""

    id: str
    sequence: Annotated[
        int,
        Field(
            description="Increases with each event. No event appears later with a number below one already returned."
        ),
    ]
    tenant_id: str
    lease_id: str | None
    lease_sequence: Annotated[int | None, Field(description="1, 2, 3, … without a gap within a lease.")]
    type: str
    data: Details
    request_id: str | None
    created_at: Moment


class EventPage(View):
    """Events in order of `sequence`. Events are kept for 90 days."""

    items: list[Event]
    next_cursor: str | None


async def _start(
    page: UsePage,
    after: Annotated[
        int | None,
        Query(
            ge=0,
            le=LARGEST_NUMBER,
            description="Only events after this `sequence`. Set it to the last one received, or use `cursor`.",
        ),
    ] = None,
) -> int | None:
    """The start position: `cursor`, or else `after`. None: the oldest stored event."""
    parts = page.after(KIND)
    if parts is None:
        return after
    if not (parts[0].isascii() and parts[0].isdigit() and int(parts[0]) <= LARGEST_NUMBER):
        raise InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
    return int(parts[0])


UseStart = Annotated[int | None, Depends(_start)]


@router.get("/v1/events", response_model=EventPage)
async def list_events(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    after: UseStart,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List events of the tenant's leases. Operators list events of all tenants."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name a tenant")])
    found = await services.events.of_tenant(principal, after=after, limit=page.limit, tenant_id=tenant_id)
    return _page(request, found)


@router.get("/v1/leases/{lease_id}/events", response_model=EventPage)
async def list_lease_events(
    request: Request, lease_id: str, principal: Viewer, services: UseServices, page: UsePage, after: UseStart
) -> Response:
    """List the events of a lease."""
    return _page(request, await services.events.of_lease(principal, lease_id, after=after, limit=page.limit))


def _page(request: Request, found: RowPage) -> Response:
    tag = list_tag(((row.id, row.sequence) for row in found.rows), also=found.next_cursor or "")
    items = [event_json(row) for row in found.rows]
    return tagged(request, to_json({"items": items, "next_cursor": found.next_cursor}), tag)


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
        "created_at": row.at,
    }
