"""`gpulease quota`: the limits of a tenant's concurrent use."""

from typing import Annotated

import typer

from app.cli import lookup, output, values
from app.cli.command import command
from app.cli.session import Session

group = typer.Typer(no_args_is_help=True, help="Quotas.")

COLUMNS: output.Columns = (
    ("RESOURCE", "resource"),
    ("LIMIT", "limit"),
    ("USED", "used"),
    ("AVAILABLE", "available"),
)


@command(group, "set")
def set_quotas(
    session: Session,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Id or name.")],
    limits: Annotated[
        list[str],
        typer.Argument(metavar="RESOURCE=LIMIT...", help="Such as gpus=16 gpus:A100=8 spend_per_hour=100.00."),
    ],
) -> None:
    """Set a tenant's limits (operators)."""
    pairs = values.pairs(limits, what="RESOURCE=LIMIT")
    rows = [{"resource": name, "limit": _limit(name, limit)} for name, limit in pairs.items()]
    api = session.api(operator=True)
    answer = api.patch(f"/v1/tenants/{lookup.tenant_id(api, tenant)}/quotas", {"limits": rows})
    session.items(answer, COLUMNS, none="no limits")


def _limit(resource: str, text: str) -> int | str | None:
    """A number for counts, None for `none`. The API rejects what is neither."""
    if text == "none":
        return None
    return int(text) if resource != "spend_per_hour" and text.isdecimal() else text


@command(group, "show")
def show(
    session: Session,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Id or name of the tenant (operators); default: the key's own tenant.")
    ] = None,
) -> None:
    """Show limits and their current use."""
    api = session.api(operator=tenant is not None)
    path = f"/v1/tenants/{lookup.tenant_id(api, tenant)}/quotas" if tenant else "/v1/quotas"
    session.items(api.get(path), COLUMNS, none="no limits: the tenant cannot lease anything")
