"""Options of the commands on groups."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import values

if TYPE_CHECKING:
    from app.cli.errors import Json

_PANEL = "The group"


@dataclass(frozen=True)
class GroupOptions:
    """What a group has besides the request of its members."""

    size: Annotated[int, typer.Option(min=1, help="Number of members.", rich_help_panel=_PANEL)]
    min_size: Annotated[
        int | None,
        typer.Option(min=1, help="Members without which the group does not run. Default: all.", rich_help_panel=_PANEL),
    ] = None
    placement: Annotated[
        Literal["any", "same_zone", "cluster"] | None,
        typer.Option(
            help="any: one region. same_zone: one zone. cluster: close to each other in it.", rich_help_panel=_PANEL
        ),
    ] = None
    fabric: Annotated[
        Literal["none", "preferred", "required"] | None,
        typer.Option(help="Network fabric between the VMs, such as EFA or InfiniBand.", rich_help_panel=_PANEL),
    ] = None
    form_time: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="How long the members may take to be ready in one place. Default: 15m.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    on_member_loss: Annotated[
        Literal["end", "replace", "keep"] | None,
        typer.Option(help="What the loss of a member means. Default: end.", rich_help_panel=_PANEL),
    ] = None

    def fields(self) -> "Json":
        """As the API takes them."""
        options = {
            "size": self.size,
            "min_size": self.min_size,
            "placement": self.placement,
            "interconnect": self.fabric,
            "form_seconds": self.form_time,
            "on_member_loss": self.on_member_loss,
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class Sending:
    """How `group create` sends the request."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Create without a question.")] = False
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key returns the same group; default: a new key.")
    ] = None
