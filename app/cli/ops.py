"""`gpulease ops`: the operator's view of the whole installation, and its brakes."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import output
from app.cli.command import command
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.errors import Json

group = typer.Typer(no_args_is_help=True, help="The whole installation (operators).")


Note = Annotated[str | None, typer.Option(help="Why, for the others.")]


@command(group, "summary")
def summary(session: Session) -> None:
    """Show leases, GPUs, spend, capacity failures and what needs attention."""
    session.answer(session.api(operator=True).get("/v1/ops/summary"), output.fields)


@command(group, "orphans")
def orphans(session: Session) -> None:
    """Show VMs that no lease stands behind, and what was done about them."""
    page = session.api(operator=True).page("/v1/ops/orphans")
    session.items(page, _columns(page), none="no orphans")


@command(group, "accounts")
def accounts(session: Session) -> None:
    """Show the cloud accounts: identity, last complete listing, last error, cordon."""
    page = session.api(operator=True).page("/v1/ops/accounts")
    session.items(page, _columns(page), none="no accounts")


@command(group, "launches")
def launches(
    session: Session,
    wish: Annotated[Literal["stop", "allow"], typer.Argument(help="Stop all launches, or allow them.")],
    *,
    note: Note = None,
) -> None:
    """Emergency stop of all launches, or its end. Running leases go on."""
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
    """Launch nothing more at an account. Its running leases go on."""
    body = {"cordoned": not off, **_noted(note)}
    session.answer(session.api(operator=True).put(f"/v1/ops/accounts/{account}/cordon", body), output.fields)


@command(group, "resume")
def resume(session: Session) -> None:
    """Lift the hold that a changed database set."""
    session.answer(session.api(operator=True).post("/v1/ops/resume"), output.fields)


@command(group, "adopt")
def adopt(session: Session) -> None:
    """Rebuild the leases of VMs whose rows are lost from their tags; `ops orphans` shows how each went."""
    session.answer(session.api(operator=True).post("/v1/ops/adopt"), output.fields)


def _noted(note: str | None) -> "Json":
    return {} if note is None else {"note": note}


def _columns(page: "Json") -> output.Columns:
    """One column for each field of the items: operators see all there is."""
    names = dict.fromkeys(name for item in page["items"] for name in item)
    return [(name.removesuffix("_at").replace("_", " ").upper(), _look(name)) for name in names]


def _look(name: str) -> output.Look:
    if name == "regions":
        return _regions
    return output.when(name) if name.endswith("_at") else name


def _regions(account: "Json") -> str:
    """A line for each; limits of the provider and costs of listings are in --json."""
    return "\n".join(map(_region, account["regions"]))


def _region(one: "Json") -> str:
    listed = output.since(one["last_complete_listing_at"])
    vms = "1 VM" if one["listed"] == 1 else f"{one['listed']} VMs"
    told = f"{vms}, listed {listed}" if listed else "not listed yet"
    error = f", {output.words(one['last_error'])}" if one["last_error"] else ""
    return f"{one['region']}: {told}{error}"
