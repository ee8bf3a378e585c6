"""Events as the API returns them: one model for each type, made from `app.domain.events`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from fastapi import Depends, Query
from pydantic import Field, create_model
from typing_extensions import TypeAliasType

from app.api.schemas.base import Details, Moment, Page, Timestamp, View
from app.api.schemas.lease_filters import QueryText
from app.domain.event_parts import EventData
from app.domain.event_types import EventType
from app.domain.events import EVENT_DATA
from app.domain.list_filters import EventFilter


class EventEnvelope(View):
    """What all events have."""

    id: Annotated[str, Field(description="The event's id.")]
    sequence: Annotated[
        int,
        Field(
            description="Increases with each event. No event appears later with a number below one already returned."
        ),
    ]
    tenant_id: Annotated[str, Field(description="The tenant to which the event belongs.")]
    lease_id: Annotated[str | None, Field(description="The lease that changed. Null: the event belongs to no lease.")]
    lease_sequence: Annotated[int | None, Field(description="1, 2, 3, … without a gap within a lease.")]
    request_id: Annotated[str | None, Field(description="The API request that caused the event.")]
    created_at: Annotated[Moment, Field(description="When the change happened.")]


class OtherEvent(EventEnvelope):
    """An event of a type that this version of the document does not know. The list of types may grow."""

    type: Annotated[str, Field(description="The type.")]
    data: Details


def _model(kind: EventType, data: type[EventData]) -> type[EventEnvelope]:
    event_type = Literal[kind]  # pyrefly: ignore[not-a-type]  # Pydantic evaluates it
    members: dict[str, Any] = {"type": (event_type, Field(description="The type.")), "data": (data, ...)}
    return create_model(f"{data.__name__}Event", __base__=EventEnvelope, __doc__=data.__doc__, **members)


if TYPE_CHECKING:
    Event = OtherEvent
else:
    _MODELS = (*(_model(kind, data) for kind, data in EVENT_DATA.items()), OtherEvent)
    Event = TypeAliasType(
        "Event",
        Annotated[Union[_MODELS], Field(description="An event. `data` depends on `type`, see docs/states.md.")],  # noqa: UP007
    )


class EventPage(Page):
    """Events in order of `sequence`. Events are kept for 90 days."""

    items: list[Event]


EventTypes = Annotated[list[EventType] | None, Query(alias="type", description="Only events of this type. Repeatable.")]


async def _filter(
    types: EventTypes = None,
    lease_id: Annotated[QueryText | None, Query(description="Only events of this lease.")] = None,
    created_after: Annotated[Timestamp | None, Query(description="Only events after this time.")] = None,
    created_before: Annotated[Timestamp | None, Query(description="Only events before this time.")] = None,
) -> EventFilter:
    return EventFilter(
        types=frozenset(types or ()), lease_id=lease_id, created_after=created_after, created_before=created_before
    )


async def _filter_of_lease(
    types: EventTypes = None,
    created_after: Annotated[Timestamp | None, Query(description="Only events after this time.")] = None,
    created_before: Annotated[Timestamp | None, Query(description="Only events before this time.")] = None,
) -> EventFilter:
    return EventFilter(types=frozenset(types or ()), created_after=created_after, created_before=created_before)


async def _filter_of_stream(
    types: EventTypes = None,
    lease_id: Annotated[QueryText | None, Query(description="Only events of this lease.")] = None,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> EventFilter:
    return EventFilter(types=frozenset(types or ()), lease_id=lease_id, tenant_id=tenant_id)


UseEventFilter = Annotated[EventFilter, Depends(_filter)]
UseLeaseEventFilter = Annotated[EventFilter, Depends(_filter_of_lease)]
"""As UseEventFilter, for the events of the lease in the path."""
UseStreamFilter = Annotated[EventFilter, Depends(_filter_of_stream)]
"""As UseEventFilter, for the stream, which has no times."""
