"""Console output of the VMs of a lease."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, View


class ConsoleOutput(View):
    """The last output of one attempt's VM on its serial console, at most 64 KiB."""

    n: Annotated[int, Field(description="The attempt.")]
    text: str
    created_at: Annotated[Moment, Field(description="When the console was read.")]


class ConsoleOutputPage(View):
    """The stored console output of a lease, in order of its attempts."""

    items: list[ConsoleOutput]
    next_cursor: str | None
