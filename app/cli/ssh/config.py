"""`gpulease ssh-config`: a Host alias for each active lease, for ssh, scp, rsync and editors.

The aliases are in a file of their own, one for each tenant, below ~/.ssh/gpulease. One line at the beginning of
~/.ssh/config includes these files.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.cli import lookup
from app.cli.errors import CliError, Json
from app.cli.session import Session
from app.cli.ssh.identities import identity_settings, local_files
from app.cli.ssh.ssh import Identity, Login
from app.cli.ssh.target import options, state_directory, write_private

_DOMAIN = "gpulease"
_HEADER = "# Written by `gpulease ssh-config`, which replaces the whole file.\n"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_TENANT = re.compile(r"tenant_[A-Za-z0-9]+")
_BLOCK = re.compile(r"(host|match)[\s=]", re.IGNORECASE)
_ESCAPED = str.maketrans(
    {'"': '\\"', "\\": 4 * "\\", "%": "[%%]", "$": "[$]", "*": "[*]", "?": "[?]", "[": "[[]"},
)
_INCLUDE = re.compile(r"include[\s=]+(.*)", re.IGNORECASE)


def ssh_config(
    session: Session,
    *,
    identity: Identity = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the aliases; change no file below ~/.ssh.")
    ] = False,
) -> None:
    """Write a Host alias for each active lease, such as train-1.gpulease, and remove those of ended leases.

    Then `ssh train-1.gpulease`, scp, rsync and VS Code Remote work. Repeat the command when leases have changed.
    """
    session.refuse_csv("ssh-config")
    api = session.api()
    tenant_id = lookup.own_tenant_id(api)
    leases = api.page("/v1/leases", {"state": "active"})["items"]
    hosts = dict(_hosts(session, leases, identity))
    text = render(hosts, state_directory(os.environ))
    if only_print:
        sys.stdout.write(text)
        return
    path = config_file(os.environ, tenant_id)
    included = install(path, text)
    session.note(f"{len(hosts)} hosts in {path}" + (f", included by {included}" if included else ""))
    for alias in hosts:
        sys.stdout.write(f"{alias}\n")


def config_file(environ: Mapping[str, str], tenant_id: str) -> Path:
    """The file of a tenant's aliases. Raises CliError without a home directory, and for an unsafe id."""
    home = environ.get("HOME")
    if not home:
        raise CliError("no home directory for ~/.ssh: set HOME, or use --print")
    if not _TENANT.fullmatch(tenant_id):
        msg = f"the API returned {tenant_id!r} as tenant: the value is unsafe as a file name"
        raise CliError(msg)
    return Path(home, ".ssh", "gpulease", f"{tenant_id}.config")


def render(hosts: Mapping[str, Login], directory: Path) -> str:
    """The text of the file. Also writes the files of host keys that it names."""
    return _HEADER + "".join(_block(alias, login, directory) for alias, login in hosts.items())


def install(path: Path, text: str) -> Path | None:
    """Writes the aliases, and includes them in ~/.ssh/config. Returns that file when it changed. Raises CliError."""
    main = path.parent.parent / "config"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, text)
        before = main.read_text(encoding="utf-8") if main.exists() else ""
        line = _include(path.parent)
        if is_included(before, line):
            return None
        # a link leads to the file that its owner keeps elsewhere
        write_private(main.resolve(), f"{line}\n{before}" if not before else f"{line}\n\n{before}")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot write {path} or {main}: {error}"
        raise CliError(msg) from None
    return main


def is_included(config: str, line: str) -> bool:
    """Whether the include line stands before the first Host or Match, after which it would apply to that block only."""
    path = _included(line)
    for raw in config.splitlines():
        stripped = raw.strip()
        if _BLOCK.match(stripped):
            return False
        if path in _included(stripped):
            return True
    return False


def _included(line: str) -> str:
    match = _INCLUDE.match(line)
    return match[1].strip() if match else ""


def _include(directory: Path) -> str:
    """The line for the files of a folder. Raises CliError for a path with control characters.

    The argument is a pattern in quotes, which OpenSSH unquotes, expands (from 9.9 on) and then matches. `[%%]` is one
    percent sign before and after 9.9.
    """
    text = str(directory.absolute())
    if not text.isprintable():
        msg = f"the folder {text!r} has characters that no line of ~/.ssh/config can hold: use --print"
        raise CliError(msg)
    return f'Include "{text.translate(_ESCAPED)}/*.config"'


def _hosts(session: Session, leases: Iterable[Json], identity: Path | None) -> Iterator[tuple[str, Login]]:
    """An alias each. A lease without an address is left out, with a note. Names that read alike get the lease's id."""
    seen: set[str] = set()
    local = local_files(os.environ)
    for lease in leases:
        try:
            login = Login.of(lease, identity, local)
        except CliError as error:
            session.note(f"left out: {error}")
            continue
        name = _UNSAFE.sub("-", str(lease.get("name") or "")).strip("-.")
        alias = f"{name}.{_DOMAIN}" if name else ""
        if not name or alias in seen:
            alias = f"{login.vm.lease_id}.{_DOMAIN}"
        seen.add(alias)
        yield alias, login


def _block(alias: str, login: Login, directory: Path) -> str:
    settings = [("HostName", login.vm.host), *options(login.vm, directory).items(), *identity_settings(login.files)]
    lines = "".join(f"  {name} {value}\n" for name, value in settings)
    return f"\nHost {alias}\n{lines}"
