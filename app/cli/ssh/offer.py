"""The login of a new lease: warns when nobody could log in, and offers this machine's public key, or a new one, at a terminal."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from app.cli.errors import Json
from app.cli.ssh import keys

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.session import Session
    from app.cli.ssh.keys import LocalKey

_HOW = "use --ssh-key FILE, or store a default key with `gpulease ssh-keys add FILE --default`"


def ensure_login(session: "Session", api: "Api", body: Json) -> None:
    """Call it before a lease is created from `body`. Stores a key only after a yes at a terminal."""
    if body.get("ssh_public_keys") is not None or body.get("ssh_keys") is not None:
        return
    tenant_id = body.get("tenant_id")
    stored = api.page(keys.PATH, {"mine": True, "tenant_id": tenant_id})["items"]
    if any(key.get("default") for key in stored):
        return
    if stored:
        names = ", ".join(str(key["name"]) for key in stored)
        _warn(session, f"none of your stored keys ({names}) is a default key: `gpulease ssh-keys set-default NAME`")
        return
    local = keys.local_keys(os.environ)
    if session.as_json or session.as_csv or not sys.stdin.isatty():
        _warn(session, _HOW if local else f"{_HOW}; `ssh-keygen -t ed25519` makes one")
        return
    chosen = _choose(local) if local else _create()
    if chosen is None:
        _warn(session, _HOW)
        return
    key = keys.store(api, chosen, default=True, tenant_id=tenant_id)
    session.note(f"stored {chosen.path} as your default SSH key {key['name']} ({key['fingerprint']})")


def _warn(session: "Session", what: str) -> None:
    session.note(f"warning: the lease has no SSH key, so nobody can log in to its VM: {what}")


def _create() -> "LocalKey | None":
    """A new key of this machine, if the person at the terminal accepts it; None for none."""
    question = "This machine has no SSH key. Create ~/.ssh/id_ed25519 without a passphrase, and store it as your default key for logins?"
    return keys.create_local_key(os.environ) if typer.confirm(question, default=True, err=True) else None


def _choose(local: "list[LocalKey]") -> "LocalKey | None":
    """The key that the person at the terminal accepts; None for none."""
    if len(local) == 1:
        question = f"You have no SSH key stored. Store {local[0].path} as your default key for logins?"
        return local[0] if typer.confirm(question, default=True, err=True) else None
    typer.echo("You have no SSH key stored. Which one becomes your default key for logins?", err=True)
    for number, key in enumerate(local, 1):
        typer.echo(f"  {number}  {key.path}", err=True)
    number = typer.prompt("Number, or 0 for none", type=int, default=1, err=True)
    return local[number - 1] if 0 < number <= len(local) else None
