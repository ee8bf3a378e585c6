"""The login of a new lease: warns when nobody could log in, and offers this machine's public key, or a new one, at a terminal."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from app.cli import ssh_keys
from app.cli.errors import Json

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.session import Session
    from app.cli.ssh_keys import LocalKey

_HOW = "use --ssh-key FILE, or store a default key with `gpulease ssh-keys add FILE --default`"


def ensure_login(session: "Session", api: "Api", body: Json) -> None:
    """Call it before a lease is created from `body`. Stores a key only after a yes at a terminal."""
    if body.get("ssh_public_keys") is not None or body.get("ssh_keys") is not None:
        return
    tenant_id = body.get("tenant_id")
    stored = api.page(ssh_keys.PATH, {"mine": True, "tenant_id": tenant_id})["items"]
    if any(key.get("default") for key in stored):
        return
    if stored:
        names = ", ".join(str(key["name"]) for key in stored)
        _warn(session, f"none of your stored keys ({names}) is a default key: `gpulease ssh-keys set-default NAME`")
        return
    found = ssh_keys.local_keys(os.environ)
    if session.as_json or session.as_csv or not sys.stdin.isatty():
        _warn(session, _HOW if found else f"{_HOW}; `ssh-keygen -t ed25519` makes one")
        return
    chosen = _choose(found) if found else _create()
    if chosen is None:
        _warn(session, _HOW)
        return
    key = ssh_keys.store(api, chosen, default=True, tenant_id=tenant_id)
    session.note(f"stored {chosen.path} as your default SSH key {key['name']} ({key['fingerprint']})")


def _warn(session: "Session", what: str) -> None:
    session.note(f"warning: the lease has no SSH key, so nobody can log in to its VM: {what}")


def _create() -> "LocalKey | None":
    """A new key of this machine, if the person at the terminal accepts it; None for none."""
    question = "This machine has no SSH key. Create ~/.ssh/id_ed25519 without a passphrase, and store it as your default key for logins?"
    return ssh_keys.create_local_key(os.environ) if typer.confirm(question, default=True, err=True) else None


def _choose(found: "list[LocalKey]") -> "LocalKey | None":
    """The key that the person at the terminal accepts; None for none."""
    if len(found) == 1:
        question = f"You have no SSH key stored. Store {found[0].path} as your default key for logins?"
        return found[0] if typer.confirm(question, default=True, err=True) else None
    typer.echo("You have no SSH key stored. Which one becomes your default key for logins?", err=True)
    for number, key in enumerate(found, 1):
        typer.echo(f"  {number}  {key.path}", err=True)
    number = typer.prompt("Number, or 0 for none", type=int, default=1, err=True)
    return found[number - 1] if 0 < number <= len(found) else None
