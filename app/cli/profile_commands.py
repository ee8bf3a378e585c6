"""`gpulease profile`: several APIs, each with its own key."""

import os
import sys
from typing import Annotated

import typer

from app.cli import completion, output, profile_file, profiles
from app.cli.command import command
from app.cli.config import clean_key, clean_url
from app.cli.errors import CliError, NotConfiguredError
from app.cli.session import Session

group = typer.Typer(no_args_is_help=True, help="Several APIs, each with its own key.")

NewName = Annotated[str, typer.Argument(metavar="NAME")]
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.profile_names)]

COLUMNS: output.Columns = (("NAME", "name"), ("URL", "url"), ("KEY", "key_from"), ("DEFAULT", "default"))


@command(group, "list")
def list_profiles(session: Session) -> None:
    """Show the profiles, never their keys."""
    known = _known()
    items = [
        {"name": one.name, "url": one.url, "key_from": _key_from(one), "default": one.name == known.default}
        for one in known.by_name.values()
    ]
    session.items({"items": items, "next_cursor": None}, COLUMNS, none=f"no profiles in {known.path}")


@command(group, "add")
def add(
    session: Session,
    name: NewName,
    *,
    key_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Prints the key, such as 'pass show gpulease'; no shell.")
    ] = None,
) -> None:
    """Add a profile for the API at --url. Without --key-command the key is asked for, or read from standard input."""
    known, url = _known(), session.choice.url
    if not profiles.NAME.fullmatch(name):
        msg = f"{name!r}: a name has letters, digits, - and _, 64 at most"
        raise typer.BadParameter(msg)
    if url is None:
        msg = "say where the API is: --url https://gpulease.example"
        raise typer.BadParameter(msg)
    if name in known.by_name:
        msg = f"there is a profile {name!r} already: `gpulease profile remove {name}` takes it away"
        raise CliError(msg)
    address = clean_url(url)
    key = None if key_command else clean_key(session.choice.key or _asked_for())
    profile_file.add(known, profiles.Profile(name, address, key, key_command))
    session.note(f"added {name} to {known.path}")


@command(group, "use")
def use(session: Session, name: Name) -> None:
    """Make a profile the default."""
    known = _known()
    profile_file.use(known, known.get(name).name)
    session.note(f"{name} is the default now")


@command(group, "remove")
def remove(session: Session, name: Name) -> None:
    """Take a profile away, its key with it. The key itself stays valid: see `gpulease key revoke`."""
    known = _known()
    profile_file.remove(known, known.get(name).name)
    session.note(f"removed {name} from {known.path}")


def _known() -> profiles.Profiles:
    path = profiles.config_path(os.environ)
    if path is None:
        msg = "no home directory: set HOME, or GPULEASE_CLI_CONFIG to the path of a file"
        raise NotConfiguredError(msg)
    return profiles.load(path)


def _key_from(profile: profiles.Profile) -> str | None:
    if profile.key_command:
        return f"command: {profile.key_command}"
    return "file" if profile.key else None


def _asked_for() -> str:
    """The key, from a person who types it unseen or from a pipe."""
    if sys.stdin.isatty():
        return str(typer.prompt("API key", hide_input=True, err=True))
    key = sys.stdin.readline().strip()
    if not key:
        msg = "no key on standard input"
        raise typer.BadParameter(msg)
    return key
