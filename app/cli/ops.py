"""`gpulease ops`: commands for operators of the whole installation, and its brakes."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import account_views, lookup, ops_views
from app.cli.command import command
from app.cli.paths import path_of
from app.cli.render import output
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="The whole installation (operators).")


Note = Annotated[str | None, typer.Option(help="Reason, shown to other operators.")]


@command(group, "summary")
def summary(session: Session) -> None:
    """Show brakes, leases, GPUs, spend, capacity failures and problems."""
    session.answer(session.api(operator=True).get("/v1/ops/summary"), ops_views.summary)


@command(group, "orphans")
def orphans(
    session: Session,
    *,
    only_open: Annotated[bool, typer.Option("--open", help="Leave out those that ended in the last 30 days.")] = False,
) -> None:
    """List VMs that belong to no lease, what they cost, and when they end. Ended ones stay for 30 days."""
    page = session.api(operator=True).page("/v1/ops/orphans", None if only_open else {"gone": "true"})
    none = "no open orphans" if only_open else "no orphans in the last 30 days"
    session.items(page, ops_views.ORPHANS, none=none, layout=ops_views.ORPHANS_LAYOUT)


@command(group, "end-orphan")
def end_orphan(
    session: Session, orphan: Annotated[str, typer.Argument(metavar="ORPHAN", help="Id of the orphan.")]
) -> None:
    """End an orphan now."""
    api = session.api(operator=True)
    orphan_id = lookup.listed_id(api, "/v1/ops/orphans", orphan, "orphan")
    session.answer(api.post(path_of("/v1/ops/orphans", orphan_id, "end")), output.fields)


@command(group, "accounts")
def accounts(
    session: Session,
    *,
    by_region: Annotated[
        bool, typer.Option("--regions", help="A line for each region, with its last listing.")
    ] = False,
) -> None:
    """List the cloud accounts: state, VMs, listed regions, cordon, last error."""
    page = session.api(operator=True).get("/v1/ops/accounts")
    if by_region and not session.as_json:
        session.items(
            account_views.regions(page), account_views.REGIONS, none="no regions", layout=account_views.REGIONS_LAYOUT
        )
        return
    session.items(page, account_views.ACCOUNTS, none="no accounts", layout=account_views.ACCOUNTS_LAYOUT)


@command(group, "launches")
def launches(
    session: Session,
    wish: Annotated[Literal["stop", "allow"], typer.Argument(help="Stop all launches, or allow them again.")],
    *,
    note: Note = None,
) -> None:
    """Stop all launches in an emergency, or allow them again. Running leases continue."""
    body = {"stopped": wish == "stop", **_noted(note)}
    session.answer(session.api(operator=True).put("/v1/ops/launches", body), output.fields)


@command(group, "cordon")
def cordon(  # noqa: PLR0913 - one argument for each option
    session: Session,
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    *,
    region: Annotated[str | None, typer.Option(help="Only the offerings of this region.")] = None,
    zone: Annotated[str | None, typer.Option(help="Only those of this zone.")] = None,
    instance_type: Annotated[str | None, typer.Option("--type", help="Only those of this instance type.")] = None,
    market: Annotated[
        Literal["on_demand", "spot", "reserved"] | None, typer.Option(help="Only those of this market.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Lift the cordon that was set with the same options.")] = False,
    note: Note = None,
) -> None:
    """Stop launches at an account, or at some of its offerings, or allow them again. Running leases continue."""
    values = {"region": region, "zone": zone, "instance_type": instance_type, "market": market}
    offerings = {name: value for name, value in values.items() if value is not None}
    if offerings and region is None:
        msg = "offerings are cordoned in one region: add --region"
        raise typer.BadParameter(msg)
    body = {"cordoned": not off, **_noted(note), **({"offerings": offerings} if offerings else {})}
    changed = session.api(operator=True).put(path_of("/v1/ops/accounts", account, "cordon"), body)
    session.answer(changed, partial(account_views.cordoned, region=region))


@command(group, "resume")
def resume(session: Session) -> None:
    """Lift the hold that a changed or restored database has set."""
    session.answer(session.api(operator=True).post("/v1/ops/resume"), output.fields)


@command(group, "adopt")
def adopt(session: Session) -> None:
    """Rebuild the leases of VMs with lost rows from their tags; `ops orphans` shows the result of each."""
    session.answer(session.api(operator=True).post("/v1/ops/adopt"), output.fields)


def _noted(note: str | None) -> "Json":
    return {} if note is None else {"note": note}
