"""`gpulease events`: the events of all leases, listed or as they happen; `gpulease audit`: who changed what."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.completion import live_leases
from app.cli.leases import event_stream, event_views
from app.cli.render import output
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Events of all leases.")

Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type, such as lease.failed; repeatable.")
]
Lease = Annotated[
    str | None,
    typer.Option(metavar="LEASE", help="Only this lease, by id or name.", autocompletion=live_leases),
]
Tenant = Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")]
After = Annotated[int | None, typer.Option(help="Only events after this sequence number.")]
CreatedAfter = Annotated[
    str | None, typer.Option(metavar="TIME", parser=values.past, help="2h (ago) or an RFC 3339 time.")
]
Limit = Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")]


@dataclass(frozen=True)
class EventFilters:
    """Which events to show."""

    types: Types = None
    lease: Lease = None
    after: After = None
    tenant: Tenant = None

    def stream_params(self, api: "Api") -> "Json":
        """The query parameters that the list and the stream share."""
        return {
            "lease_id": lookup.lease_id(api, self.lease) if self.lease else None,
            "tenant_id": lookup.tenant_id(api, self.tenant) if self.tenant else None,
        }


@command(group, "list")
def list_events(
    session: Session,
    filters: EventFilters,
    *,
    created_after: CreatedAfter = None,
    created_before: CreatedAfter = None,
    limit: Limit = 50,
) -> None:
    """List the newest events, the last one at the end. With --after or --created-after, list the events from there."""
    api = session.api(operator=filters.tenant is not None)
    params: Json = {
        **filters.stream_params(api),
        "type": filters.types or None,
        "after": filters.after,
        "created_after": created_after,
        "created_before": created_before,
    }
    if filters.after is None and created_after is None:
        page = api.page("/v1/events", {**params, "sort": "-created_at"}, limit=limit or None)
        page = {**page, "items": page["items"][::-1]}
    else:
        page = api.page("/v1/events", params, limit=limit or None)
    session.items(page, event_views.EVENTS, none="no events", layout=event_views.EVENTS_LAYOUT)


@command(group, "tail")
def tail(session: Session, filters: EventFilters) -> None:
    """Print events as they happen, one line each, until Ctrl-C. Continues through restarts of the API."""
    session.refuse_csv("events tail")
    api = session.api(operator=filters.tenant is not None)
    for event in event_stream.follow(api, filters.stream_params(api), after=filters.after, note=session.note):
        if filters.types and event.get("type") not in filters.types:
            continue
        if session.as_json:
            output.write_json_line(event)
        else:
            sys.stdout.write(output.printable(event_views.event_line(event)).replace("\n", " ") + "\n")
            sys.stdout.flush()


def audit(
    session: Session,
    *,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="ACTION", help="Only this action, such as key.revoke; repeatable."),
    ] = None,
    about: Annotated[str | None, typer.Option(metavar="ID", help="Only changes of this lease, key or tenant.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedAfter = None,
    limit: Limit = 50,
) -> None:
    """List who changed what, newest first. Operators see all tenants, admins their own."""
    params = {
        "type": types or None,
        "about": about,
        "created_after": created_after,
        "created_before": created_before,
    }
    page = session.api().page("/v1/audit", params, limit=limit or None)
    session.items(page, event_views.AUDIT, none="no audit entries", layout=event_views.AUDIT_LAYOUT)
