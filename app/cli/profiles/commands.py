"""`gpulease profile`: several APIs, each with its own key."""

import os
import sys
from typing import Annotated

import typer

from app.cli import completion
from app.cli.command import command
from app.cli.endpoint import clean_key, clean_url
from app.cli.errors import CliError, NotConfiguredError
from app.cli.profiles import file, profiles
from app.cli.render import output
from app.cli.render.layout import Layout
from app.cli.session import Session

group = typer.Typer(no_args_is_help=True, help="Several APIs, each with its own key.")

NewName = Annotated[str, typer.Argument(metavar="NAME")]
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.profile_names)]

COLUMNS: output.Columns = (("NAME", "name"), ("URL", "url"), ("KEY", "key_from"), ("DEFAULT", "default"))
LAYOUT = Layout(("NAME", "DEFAULT", "URL", "KEY"), wrap={"URL": 24, "KEY": 16})


@command(group, "list")
def list_profiles(session: Session) -> None:
    """List the profiles, without their keys."""
    known = _known()
    items = [
        {
            "name": profile.name,
            "url": profile.url,
            "key_from": _key_from(profile),
            "default": profile.name == known.default,
        }
        for profile in known.by_name.values()
    ]
    session.items({"items": items, "next_cursor": None}, COLUMNS, none=f"no profiles in {known.path}", layout=LAYOUT)


@command(group, "add")
def add(
    session: Session,
    name: NewName,
    *,
    key_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help=("Command that prints the key, such as 'pass show gpulease'; runs without a shell.")
        ),
    ] = None,
) -> None:
    """Add a profile for the API at --url.

    Without --key-command, the command prompts for the key or reads it from standard input.
    """
    known, url = _known(), session.choice.url
    if not profiles.NAME.fullmatch(name):
        msg = f"{name!r}: a name consists of letters, digits, - and _, at most 64"
        raise typer.BadParameter(msg)
    if url is None:
        msg = "no API address given: use --url https://gpulease.example"
        raise typer.BadParameter(msg)
    if name in known.by_name:
        msg = f"the profile {name!r} already exists: remove it with `gpulease profile remove {name}`"
        raise CliError(msg)
    address = clean_url(url)
    key = None if key_command else clean_key(session.choice.key or _asked_for())
    file.add(known, profiles.Profile(name, address, key, key_command))
    session.note(f"added {name} to {known.path}")


@command(group, "use")
def use(session: Session, name: Name) -> None:
    """Make a profile the default."""
    known = _known()
    file.use(known, known.get(name).name)
    session.note(f"{name} is now the default")


@command(group, "remove")
def remove(session: Session, name: Name) -> None:
    """Remove a profile and its stored key. The key itself stays valid: see `gpulease key revoke`."""
    known = _known()
    file.remove(known, known.get(name).name)
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
    """The key, typed without echo or read from a pipe."""
    if sys.stdin.isatty():
        return str(typer.prompt("API key", hide_input=True, err=True))
    key = sys.stdin.readline().strip()
    if not key:
        msg = "no key on standard input"
        raise typer.BadParameter(msg)
    return key
