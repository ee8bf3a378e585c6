"""`gpulease ssh`: become the system's ssh, which believes only the VM of this lease.

What the API says about a VM is checked before it becomes an argument or a line of a file: an address that begins with a
minus would be an option of ssh, and a line break in a key another host's key.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import lookup
from app.cli.completion import active_leases
from app.cli.errors import CliError, Json
from app.cli.output import at
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_KEY = re.compile(r"([a-z0-9][a-zA-Z0-9@.-]*) ([A-Za-z0-9+/]+=*)( .*)?")
_ALWAYS_OVER = frozenset({"released", "failed", "releasing"})


@dataclass(frozen=True)
class Target:
    """The VM of a lease, every part checked."""

    lease_id: str
    attempt: int
    """Number of the try that made this VM: a replacement VM has other host keys."""
    user: str | None
    host: str
    port: int
    host_keys: tuple[str, ...]
    """`type base64`, as the VM told them; empty when it told none."""


def ssh(
    session: Session,
    lease: Annotated[
        str,
        typer.Argument(metavar="LEASE", help="Id, or name where it means one lease.", autocompletion=active_leases),
    ],
    rest: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: further options of ssh, then a command to run there."),
    ] = None,
    *,
    identity: Annotated[
        Path | None, typer.Option("-i", "--identity", metavar="FILE", help="Private key to log in with.")
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Show the command and do not run it.")] = False,
) -> None:
    """Log in to the VM of an active lease, or run a command there. Only that VM's own host keys are believed.

    Its exit code is this command's.
    """
    session.refuse_csv("ssh")
    vm = target(_lease(session.api(), lease))
    words = arguments(vm, state_directory(os.environ), identity=identity, rest=rest or ())
    if only_print:
        sys.stdout.write(shlex.join(words) + "\n")
        return
    if shutil.which("ssh") is None:
        msg = "there is no ssh on PATH: install OpenSSH's client, or see --print"
        raise CliError(msg)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp("ssh", words)  # noqa: S606, S607 - no shell, and which ssh is for PATH to say


def target(lease: Json) -> Target:
    """Where to log in. Raises CliError for a lease that is not usable, and for answers that could do harm."""
    lease_id, state = str(lease["id"]), str(lease.get("state"))
    if state != "active":
        over = lease.get("terminal") or state in _ALWAYS_OVER
        hint = (
            "there is nothing to log in to"
            if over
            else f"`gpulease lease watch {lease_id} --until active` waits for it"
        )
        msg = f"{lease_id} is {state}, not active: {hint}"
        raise CliError(msg)
    user = at(lease, "connection.ssh_user")
    host = at(lease, "connection.public_ip") or at(lease, "connection.private_ip")
    if not host:
        msg = f"{lease_id} is active but has no address yet: `gpulease lease show {lease_id}`"
        raise CliError(msg)
    return Target(
        _checked(_ID, lease_id, "id of the lease"),
        int(lease.get("attempts_count") or 0),
        _checked(_USER, user, "user") if user is not None else None,
        _checked(_HOST, host, "address"),
        _port(at(lease, "connection.ssh_port")),
        tuple(_host_key(key) for key in at(lease, "connection.ssh_host_keys") or ()),
    )


def arguments(vm: Target, directory: Path, *, identity: Path | None, rest: Sequence[str]) -> list[str]:
    """The command line of ssh; writes the file of known hosts that it names, where the host keys are known.

    Without known keys the first ones seen are kept for this VM, and others refused from then on.
    """
    known = directory / f"{vm.lease_id}-{vm.attempt}.{'known' if vm.host_keys else 'seen'}"
    _keep(known, "".join(f"{vm.lease_id} {key}\n" for key in vm.host_keys))
    options = {
        "HostKeyAlias": vm.lease_id,
        "UserKnownHostsFile": _quoted(known),
        "StrictHostKeyChecking": "yes" if vm.host_keys else "accept-new",
    }
    line = ["ssh", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    line += ["-i", str(identity)] if identity else []
    line += ["-l", vm.user] if vm.user else []
    # options after the host are options to ssh as well; where both name one, the first counts
    return [*line, "-p", str(vm.port), vm.host, *rest]


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where known hosts are kept. CliError where the environment names no home."""
    base = environ.get("XDG_STATE_HOME", "")
    if not Path(base).is_absolute():
        if not environ.get("HOME"):
            msg = "no home directory to keep host keys in: set HOME or XDG_STATE_HOME"
            raise CliError(msg)
        base = f"{environ['HOME']}/.local/state"
    return Path(base, "gpulease", "ssh")


def _lease(api: "Api", reference: str) -> Json:
    return api.get(f"/v1/leases/{lookup.lease_id(api, reference)}")


def _checked(pattern: re.Pattern[str], value: object, what: str) -> str:
    text = str(value)
    if not pattern.fullmatch(text):
        msg = f"the API's answer has {text!r} as {what}: that is not handed to ssh"
        raise CliError(msg)
    return text


def _port(value: object) -> int:
    if value is None:
        return 22
    if not isinstance(value, int) or not 0 < value < 65536:
        msg = f"the API's answer has {value!r} as port: that is not handed to ssh"
        raise CliError(msg)
    return value


def _host_key(value: object) -> str:
    parts = _KEY.fullmatch(str(value))
    if parts is None:
        msg = f"the API's answer has {value!r} as host key: that is not believed"
        raise CliError(msg)
    return f"{parts[1]} {parts[2]}"


def _keep(known: Path, text: str) -> None:
    """Write the file in one step, for another ssh may be reading it; without text only make its folder."""
    try:
        known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known.parent.chmod(0o700)
        if text:
            new = known.with_suffix(f".{os.getpid()}")
            new.write_text(text, encoding="ascii")
            new.replace(known)
    except OSError as error:
        msg = f"cannot keep host keys in {known.parent}: {error.strerror}"
        raise CliError(msg) from None


def _quoted(path: Path) -> str:
    """As a value of ssh's configuration: spaces kept, `%` no token."""
    return '"{}"'.format(str(path).replace("%", "%%"))
