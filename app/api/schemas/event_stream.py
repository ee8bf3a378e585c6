"""The messages of the event stream, for the reference. The stream writes them without this model."""

from pydantic import Field

from app.api.schemas.base import View


class EventStreamMessage(View):
    """One message of the event stream. The server also sends a comment after 15 s without an event."""

    id: str = Field(
        pattern=r"^[0-9]+$",
        description="The event's `sequence`. Send it as `Last-Event-ID` to resume after this event.",
    )
    event: str = Field(description="The event's `type`.")
    data: str = Field(description="An `Event` as JSON.", json_schema_extra={"contentMediaType": "application/json"})
