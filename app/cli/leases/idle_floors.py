"""`gpulease tenant idle-floor`: a rule for idle GPUs that holds for every lease of a tenant."""

from typing import Annotated

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.gpus.options import IdleAction, IdleAfter, idle_rule
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.session import Session

group = typer.Typer(no_args_is_help=True, help="The rule for idle GPUs that every lease of a tenant has (operators).")

Reference = Annotated[str, typer.Argument(metavar="TENANT", help="Id, or unique name of a tenant.")]


@command(group, "set")
def set_floor(
    session: Session,
    tenant: Reference,
    *,
    idle_after: IdleAfter = None,
    idle_action: IdleAction = None,
    max_keep: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="How long one `lease keep` may hold idleness off. Default: any time.",
        ),
    ] = None,
) -> None:
    """Set the floor. Of a lease's own rule and the floor, the stricter one applies, at once. Default: notify after 1h."""
    body = {**(idle_rule(idle_after, idle_action) or {}), "max_keep_seconds": max_keep}
    api = session.api(operator=True)
    session.answer(api.put(_path(lookup.tenant_id(api, tenant)), body), output.fields)


@command(group, "show")
def show(session: Session, tenant: Reference) -> None:
    """Show the floor."""
    api = session.api(operator=True)
    session.answer(api.get(_path(lookup.tenant_id(api, tenant))), output.fields)


@command(group, "clear")
def clear(session: Session, tenant: Reference) -> None:
    """Remove the floor. Leases keep their own rules."""
    api = session.api(operator=True)
    api.delete(_path(lookup.tenant_id(api, tenant)))
    session.note("the floor is removed")


def _path(tenant_id: str) -> str:
    return path_of("/v1/tenants", tenant_id, "idle-floor")
