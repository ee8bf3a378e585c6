"""`gpulease tenant`: tenants of the installation (operators)."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.leases import idle_floors
from app.cli.paths import path_of
from app.cli.render import output, times
from app.cli.render.layout import Layout
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="Tenants (operators).")
group.add_typer(idle_floors.group, name="idle-floor")

_PATH = "/v1/tenants"

Reference = Annotated[str, typer.Argument(metavar="TENANT", help="Id, or unique name of a tenant.")]
MaxTtl = Annotated[int | None, typer.Option(metavar="DURATION", parser=values.seconds, help="Maximum ttl of a lease.")]
MaxTotal = Annotated[
    int | None,
    typer.Option(
        metavar="DURATION", parser=values.seconds, help="Maximum total duration of a lease, including extensions."
    ),
]


def _duration(name: str) -> output.ValueSource:
    return output.DualValue(lambda item: times.duration(item[name]) if item.get(name) is not None else None, name)


COLUMNS: output.Columns = (
    ("ID", "id"),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("MAX TTL", _duration("max_ttl_seconds")),
    ("MAX TOTAL", _duration("max_total_seconds")),
    ("CREATED", output.when("created_at")),
)
LAYOUT = Layout(("NAME", "ID", "STATUS", "MAX TTL", "MAX TOTAL", "CREATED"), wrap={"NAME": 16})


@command(group, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument()],
    *,
    max_ttl: MaxTtl = None,
    max_total: MaxTotal = None,
) -> None:
    """Create a tenant. The tenant cannot lease until `gpulease quota set` allows GPUs."""
    body = _body(name=name, max_ttl_seconds=max_ttl, max_total_seconds=max_total)
    session.answer(session.api(operator=True).create(_PATH, body), output.fields)


@command(group, "list")
def list_tenants(
    session: Session, *, limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50
) -> None:
    """List the tenants."""
    page = session.api(operator=True).page(_PATH, limit=limit or None)
    session.items(page, COLUMNS, none="no tenants", layout=LAYOUT)


@command(group, "show")
def show(session: Session, tenant: Reference) -> None:
    """Show one tenant."""
    api = session.api(operator=True)
    session.answer(api.get(path_of(_PATH, lookup.tenant_id(api, tenant))), output.fields)


@command(group, "update")
def update(
    session: Session,
    tenant: Reference,
    *,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    max_ttl: MaxTtl = None,
    max_total: MaxTotal = None,
    status: Annotated[
        Literal["active", "suspended"] | None,
        typer.Option(help="A suspended tenant gets no VM and no more time for one."),
    ] = None,
    end_leases: Annotated[bool, typer.Option("--end-leases", help="With suspended: also end running leases.")] = False,
) -> None:
    """Change a tenant. Options that are not given stay unchanged."""
    body = _body(
        name=name,
        max_ttl_seconds=max_ttl,
        max_total_seconds=max_total,
        status=status,
        end_leases=end_leases or None,
    )
    if not body:
        msg = "nothing to change: give at least one option"
        raise typer.BadParameter(msg)
    api = session.api(operator=True)
    session.answer(api.patch(path_of(_PATH, lookup.tenant_id(api, tenant)), body), output.fields)


def _body(**fields: object) -> "Json":
    return {name: value for name, value in fields.items() if value is not None}
