"""`gpulease ssh-keys`: the stored public keys with which leases are created."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import values
from app.cli.command import command
from app.cli.errors import CliError, Json, ProblemError
from app.cli.paths import is_id, path_of
from app.cli.render import output
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

group = typer.Typer(no_args_is_help=True, help="SSH keys that new leases accept for the login.")

PATH = "/v1/ssh-keys"
_NAME_LENGTH = 63
_TRIES = 9
_PREFERRED = ("id_ed25519", "id_ecdsa")

KeyReference = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a stored key.")]

COLUMNS: output.Columns = (
    ("NAME", "name"),
    ("DEFAULT", "default"),
    ("FINGERPRINT", "fingerprint"),
    ("CREATED", output.when("created_at")),
    ("OWNER", "key_id"),
    ("ID", "id"),
)


@dataclass(frozen=True)
class LocalKey:
    """A public key of this machine."""

    path: Path
    line: str

    @property
    def name(self) -> str:
        """A name for the stored key: the key's comment, usually `user@host`, else the file's name."""
        comment = " ".join(self.line.split(" ")[2:])
        clean = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in comment).strip("-")
        return clean[:_NAME_LENGTH].strip("-") or self.path.stem


@command(group, "list")
def list_keys(
    session: Session,
    *,
    mine: Annotated[bool, typer.Option("--mine", help="Only keys that your API key stored.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List the stored keys of the tenant."""
    page = session.api().page(PATH, {"mine": True} if mine else None, limit=limit or None)
    session.items(page, COLUMNS, none="no SSH keys: store one with `gpulease ssh-keys add FILE`")


@command(group, "add")
def add(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A public key, such as ~/.ssh/id_ed25519.pub.")],
    *,
    name: Annotated[str | None, typer.Option(help="Name of the key. Default: the key's comment.")] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Your leases get this key if the request names no key.")
    ] = False,
) -> None:
    """Store a public key. The private key stays on this machine."""
    keys = values.ssh_keys([file])
    if len(keys) > 1:
        msg = f"{file} contains {len(keys)} keys: store one key at a time"
        raise typer.BadParameter(msg)
    stored = store(session.api(), LocalKey(file, keys[0]), name=name, default=default)
    session.answer(stored, output.fields)


@command(group, "set-default")
def set_default(
    session: Session,
    reference: KeyReference,
    *,
    off: Annotated[bool, typer.Option("--off", help="The key is no longer a default key.")] = False,
) -> None:
    """Make a stored key a default key of its owner. Leases that name no key get all default keys of their creator."""
    api = session.api()
    session.answer(api.patch(path_of(PATH, _key_id(api, reference)), {"default": not off}), output.fields)


@command(group, "delete")
def delete(session: Session, reference: KeyReference) -> None:
    """Delete a stored key. VMs that have the key keep it."""
    api = session.api()
    key_id = _key_id(api, reference)
    session.answer(api.delete(path_of(PATH, key_id)), output.fields)
    session.note(f"deleted {reference}")


def store(api: "Api", key: LocalKey, *, name: str | None = None, default: bool, tenant_id: str | None = None) -> Json:
    """Stores a key. Without a name, it gets one of its own that is free in the tenant. Raises CliError."""
    body = {"public_key": key.line, "default": default} | ({"tenant_id": tenant_id} if tenant_id else {})
    for free in () if name else _free_names(key.name):
        try:
            return api.create(PATH, {**body, "name": free})
        except ProblemError as error:
            if error.code != "name_taken":
                raise
    return api.create(PATH, {**body, "name": name or key.name})


def _free_names(name: str) -> Iterator[str]:
    """Names that may be free: a colleague's key may have the same comment."""
    yield name
    yield from (f"{name[: _NAME_LENGTH - 2]}-{n}" for n in range(2, _TRIES + 1))


def local_keys(environ: Mapping[str, str]) -> list[LocalKey]:
    """The public keys `~/.ssh/id_*.pub`, the preferred types first. Files that are no public key are left out."""
    home = environ.get("HOME")
    if not home:
        return []
    keys = []
    for path in sorted(Path(home, ".ssh").glob("id_*.pub"), key=lambda path: (path.stem not in _PREFERRED, path.name)):
        try:
            (line,) = values.ssh_keys([path])
        except (typer.BadParameter, ValueError):
            continue
        keys.append(LocalKey(path, line))
    return keys


def create_local_key(environ: Mapping[str, str]) -> LocalKey:
    """Creates `~/.ssh/id_ed25519` with OpenSSH's ssh-keygen. Raises CliError."""
    folder = Path(environ.get("HOME") or "~", ".ssh").expanduser()
    path = folder / "id_ed25519"
    if shutil.which("ssh-keygen") is None:
        raise CliError("ssh-keygen is not on PATH: install the OpenSSH client")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)  # noqa: S607 - which ssh-keygen is for PATH to say
    except (OSError, subprocess.CalledProcessError) as error:
        msg = f"cannot create {path}: {error}"
        raise CliError(msg) from None
    return next(key for key in local_keys(environ) if key.path == path.with_name("id_ed25519.pub"))


def _key_id(api: "Api", reference: str) -> str:
    if is_id(reference, "sshkey"):
        return reference
    for key in api.page(PATH)["items"]:
        if key.get("name") == reference:
            return str(key["id"])
    msg = f"no SSH key has the name {reference!r}: `gpulease ssh-keys list` shows all"
    raise CliError(msg)
