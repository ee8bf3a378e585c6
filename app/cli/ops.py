"""`gpulease ops`: commands for operators of the whole installation, and its brakes."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import output
from app.cli.command import command
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="The whole installation (operators).")


Note = Annotated[str | None, typer.Option(help="Reason, shown to other operators.")]


@command(group, "summary")
def summary(session: Session) -> None:
    """Show leases, GPUs, spend, capacity failures and problems."""
    session.answer(session.api(operator=True).get("/v1/ops/summary"), output.fields)


@command(group, "orphans")
def orphans(
    session: Session,
    *,
    only_open: Annotated[bool, typer.Option("--open", help="Leave out those that ended in the last 30 days.")] = False,
) -> None:
    """List VMs that belong to no lease, with their cost and the actions taken on them."""
    page = session.api(operator=True).page("/v1/ops/orphans", {} if only_open else {"gone": "true"})
    session.items(page, _columns(page), none="no orphans")


@command(group, "accounts")
def accounts(session: Session) -> None:
    """List the cloud accounts: identity, last complete listing, last error, cordon."""
    page = session.api(operator=True).get("/v1/ops/accounts")
    session.items(page, _columns(page), none="no accounts")


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
def cordon(
    session: Session,
    account: Annotated[str, typer.Argument(help="Name of the account.")],
    *,
    off: Annotated[bool, typer.Option("--off", help="Lift the cordon.")] = False,
    note: Note = None,
) -> None:
    """Stop launches at an account, or allow them again. Its running leases continue."""
    body = {"cordoned": not off, **_noted(note)}
    session.answer(session.api(operator=True).put(f"/v1/ops/accounts/{account}/cordon", body), output.fields)


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


def _columns(page: "Json") -> output.Columns:
    """One column for each field of the items, because operators see all fields."""
    names = dict.fromkeys(name for item in page["items"] for name in item)
    return [(name.removesuffix("_at").replace("_", " ").upper(), _look(name)) for name in names]


def _look(name: str) -> output.Look:
    if name == "regions":
        return _regions
    return output.when(name) if name.endswith("_at") else name


def _regions(account: "Json") -> str:
    """One line per account. Provider limits and listing costs are only in --json."""
    return "\n".join(map(_region, account["regions"]))


def _region(one: "Json") -> str:
    listed = output.since(one["last_complete_listing_at"])
    vms = "1 VM" if one["listed"] == 1 else f"{one['listed']} VMs"
    told = f"{vms}, listed {listed}" if listed else "not listed yet"
    error = f", {output.words(one['last_error'])}" if one["last_error"] else ""
    return f"{one['region']}: {told}{error}"
