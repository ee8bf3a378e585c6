"""Models of the brakes that operators and gpulease set."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, Moment, Text, View

Note = Annotated[
    Annotated[Text, Field(max_length=500)] | None,
    Field(description="The operator's reason, returned with the brake."),
]


class LaunchStop(Body):
    """The emergency stop of all launches. Running leases continue."""

    stopped: bool
    note: Note = None


class Brake(View):
    """A stop set by an operator. `by` is the id of the key."""

    by: str
    since: Moment
    note: str | None


class Hold(View):
    """The hold that gpulease sets when the database was changed or restored. See docs/operations.md."""

    reason: str
    since: Moment | None


class Brakes(View):
    """The brakes of the whole installation. A brake that is not set is null."""

    installation_id: str
    launches_stopped: Brake | None
    hold: Hold | None
