"""`gpulease quota`: the limits of a tenant's concurrent use."""

from typing import Annotated

import typer

from app.cli import lookup, values
from app.cli.command import command
from app.cli.errors import Json
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.render.texts import amount
from app.cli.session import Session

group = typer.Typer(no_args_is_help=True, help="Quotas.")


def _limit_text(item: Json, name: str) -> str:
    if item.get(name) is not None:
        return amount(item[name])
    return "none" if item.get("resource") == "gpus" else "unlimited"


COLUMNS: output.Columns = (
    ("RESOURCE", "resource"),
    ("LIMIT", output.DualValue(lambda item: _limit_text(item, "limit"), "limit")),
    ("USED", output.DualValue(lambda item: amount(item.get("used")), "used")),
    ("AVAILABLE", output.DualValue(lambda item: _limit_text(item, "available"), "available")),
)
LAYOUT = Layout(right=frozenset({"LIMIT", "USED", "AVAILABLE"}))


@command(group, "set")
def set_quotas(
    session: Session,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Id or name.")],
    limits: Annotated[
        list[str],
        typer.Argument(
            metavar="RESOURCE=LIMIT...",
            help="Such as gpus=16 gpus:A100=8 spend_per_hour=100.00; gpus:A100=none removes a limit.",
        ),
    ],
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Remove the limits that are not given.")] = False,
) -> None:
    """Set limits of a tenant (operators). Limits that are not given stay, unless --replace removes them."""
    pairs = values.pairs(limits, what="RESOURCE=LIMIT")
    rows = [{"resource": name, "limit": values.quota_limit(name, text)} for name, text in pairs.items()]
    api = session.api(operator=True)
    path = path_of("/v1/tenants", lookup.tenant_id(api, tenant), "quotas")
    if replace:
        answer = api.put(path, {"limits": [row for row in rows if row["limit"] is not None]})
    else:
        answer = api.patch(path, {"limits": rows})
    session.items(answer, COLUMNS, none="no limits: the tenant cannot lease anything", layout=LAYOUT)


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
    path = path_of("/v1/tenants", lookup.tenant_id(api, tenant), "quotas") if tenant else "/v1/quotas"
    session.items(api.get(path), COLUMNS, none="no limits: the tenant cannot lease anything", layout=LAYOUT)
