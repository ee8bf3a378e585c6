"""`gpulease webhooks`: HTTPS receivers of events, and their deliveries."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import lookup
from app.cli.command import command
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session
from app.cli.webhook_listen import listen

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="HTTPS receivers of events.")

_PATH = "/v1/webhooks"

Reference = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Id of the webhook.")]
Tenant = Annotated[str | None, typer.Option(help="Id or name of the tenant (operators).")]
Limit = Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="TYPE", help="Send only this type, such as lease.failed; repeatable."),
]
MessageFormat = Annotated[
    Literal["standard", "slack", "cloudevents"] | None,
    typer.Option("--format", help="slack: a sentence for a chat. cloudevents: for meters. Default: JSON, signed."),
]


def _types(item: "Json") -> str:
    return output.words(item.get("event_types") or "all")


def _enabled(item: "Json") -> str:
    return "yes" if item.get("enabled") else f"no: {item.get('disabled_reason') or 'disabled'}"


COLUMNS: output.Columns = (
    ("ID", "id"),
    ("URL", "url"),
    ("EVENTS", _types),
    ("ENABLED", _enabled),
    ("DESCRIPTION", "description"),
    ("CREATED", output.when("created_at")),
)
LAYOUT = Layout(("ID", "URL", "ENABLED", "EVENTS", "DESCRIPTION", "CREATED"), wrap={"URL": 24, "EVENTS": 16})

DELIVERIES: output.Columns = (
    ("ID", "id"),
    ("EVENT", "event_type"),
    ("STATE", "state"),
    ("TRIES", "tries"),
    ("STATUS", "status"),
    ("ERROR", "error"),
    ("LAST TRY", output.when("last_try_at")),
    ("NEXT TRY", output.when("next_try_at")),
)
DELIVERIES_LAYOUT = Layout(
    ("ID", "EVENT", "STATE", "STATUS", "TRIES", "LAST TRY", "ERROR", "NEXT TRY"), wrap={"ERROR": 16}
)


@command(group, "list")
def list_webhooks(session: Session, *, tenant: Tenant = None, limit: Limit = 50) -> None:
    """List the webhooks, newest first."""
    api = session.api(operator=tenant is not None)
    params = {"tenant_id": lookup.tenant_id(api, tenant) if tenant else None}
    session.items(api.page(_PATH, params, limit=limit or None), COLUMNS, none="no webhooks", layout=LAYOUT)


@command(group, "create")
def create(
    session: Session,
    receiver: Annotated[str, typer.Argument(metavar="URL", help="An https URL of a public address.")],
    *,
    events: Events = None,
    description: Annotated[str | None, typer.Option(help="A note for people.")] = None,
    message_format: MessageFormat = None,
    tenant: Tenant = None,
) -> None:
    """Create a webhook and show its secret once. It receives all new events, unless --event names types."""
    api = session.api(operator=tenant is not None)
    fields = {
        "description": description,
        "event_types": events or None,
        "format": message_format,
        "tenant_id": lookup.tenant_id(api, tenant) if tenant else None,
    }
    made = api.create(_PATH, {"url": receiver} | {name: value for name, value in fields.items() if value is not None})
    session.answer_secret(made, "secret")


@command(group, "show")
def show(session: Session, webhook: Reference) -> None:
    """Show one webhook."""
    api = session.api()
    session.answer(api.get(_path(api, webhook)), output.fields)


@command(group, "update")
def update(  # noqa: PLR0913 - one argument for each option
    session: Session,
    webhook: Reference,
    *,
    receiver: Annotated[str | None, typer.Option("--receiver", metavar="URL", help="A new https URL.")] = None,
    events: Events = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Send all types of events.")] = False,
    description: Annotated[str | None, typer.Option(help="A note for people.")] = None,
    message_format: MessageFormat = None,
    enabled: Annotated[
        Literal["on", "off"] | None, typer.Option("--enabled", help="off stops deliveries, on continues them.")
    ] = None,
) -> None:
    """Change, disable or enable a webhook. Options that are not given stay unchanged."""
    fields = {
        "url": receiver,
        "event_types": events or None,
        "description": description,
        "format": message_format,
        "enabled": None if enabled is None else enabled == "on",
    }
    body: Json = {name: value for name, value in fields.items() if value is not None}
    if all_events and events:
        raise typer.BadParameter("use --event or --all-events, not both")
    if all_events:
        body["event_types"] = None
    if not body:
        raise typer.BadParameter("nothing to change: give at least one option")
    api = session.api()
    session.answer(api.patch(_path(api, webhook), body), output.fields)


@command(group, "test")
def test(session: Session, webhook: Reference) -> None:
    """Send the event webhook.test once. `gpulease webhooks deliveries` shows the result."""
    api = session.api()
    session.answer(api.create(f"{_path(api, webhook)}/test"), output.fields)


@command(group, "rotate-secret")
def rotate_secret(session: Session, webhook: Reference) -> None:
    """Rotate the secret and show the new one once. For 24 hours, messages are signed with both."""
    api = session.api()
    session.answer_secret(api.create(f"{_path(api, webhook)}/rotate-secret"), "secret")


@command(group, "delete")
def delete(session: Session, webhook: Reference) -> None:
    """Delete a webhook and its delivery log."""
    api = session.api()
    path = _path(api, webhook)
    api.delete(path)
    session.note(f"deleted {path.rsplit('/', 1)[-1]}")


@command(group, "deliveries")
def deliveries(session: Session, webhook: Reference, *, limit: Limit = 50) -> None:
    """List past and pending deliveries, newest first."""
    api = session.api()
    page = api.page(f"{_path(api, webhook)}/deliveries", limit=limit or None)
    session.items(page, DELIVERIES, none="no deliveries", layout=DELIVERIES_LAYOUT)


@command(group, "replay")
def replay(
    session: Session,
    webhook: Reference,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the delivery.")],
) -> None:
    """Send a delivery again, with the same message id."""
    api = session.api()
    path = f"{_path(api, webhook)}/deliveries"
    delivery_id = lookup.listed_id(api, path, delivery, "delivery")
    session.answer(api.create(path_of(path, delivery_id, "replay")), output.fields)


command(group, "listen")(listen)


def _path(api: "Api", reference: str) -> str:
    return path_of(_PATH, lookup.listed_id(api, _PATH, reference, "webhook"))
