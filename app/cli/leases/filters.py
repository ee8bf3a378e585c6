"""Which leases `gpulease lease list` shows."""

from dataclasses import dataclass
from typing import Annotated

import typer

from app.cli import completion, values
from app.cli.errors import Json


@dataclass(frozen=True)
class LeaseFilters:
    """The filters of `lease list`."""

    all: Annotated[bool, typer.Option("--all", "-a", help="Include ended leases.")] = False
    state: Annotated[list[str] | None, typer.Option(metavar="STATE", help="Only leases in this state; repeatable.")] = (
        None
    )
    provider: Annotated[str | None, typer.Option()] = None
    region: Annotated[str | None, typer.Option(autocompletion=completion.regions)] = None
    gpu_model: Annotated[str | None, typer.Option(autocompletion=completion.gpu_models)] = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeatable.")] = None
    created_after: Annotated[
        str | None, typer.Option(metavar="TIME", parser=values.past, help="2h (ago) or an RFC 3339 time.")
    ] = None
    created_before: Annotated[
        str | None, typer.Option(metavar="TIME", parser=values.past, help="2h (ago) or an RFC 3339 time.")
    ] = None
    sort: Annotated[str | None, typer.Option(help="Name of the sort field.")] = None
    cursor: Annotated[str | None, typer.Option(help="Continue from the next_cursor of a --json response.")] = None

    def params(self) -> Json:
        """As query parameters."""
        labels = values.pairs(self.label or (), what="KEY=VALUE")
        live = ["!terminal"] if not self.all else None
        return {
            "state": self.state or live,
            "provider": self.provider,
            "region": self.region,
            "gpu_model": self.gpu_model,
            "label": [f"{key}:{value}" for key, value in labels.items()] or None,
            "created_after": self.created_after,
            "created_before": self.created_before,
            "sort": self.sort,
            "cursor": self.cursor,
        }
