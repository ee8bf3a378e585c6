"""`gpulease ssh`: runs the system's ssh, which accepts only the host keys of the lease's VM.

The command validates each value of the API before using it as an argument or a line of a file. An address that begins
with a minus would be an option of ssh. A line break in a key would add a key for another host.
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
    """The VM of a lease, with all values validated."""

    lease_id: str
    attempt: int
    "Number of the attempt that created this VM. A replacement VM has other host keys."
    user: str | None
    host: str
    port: int
    host_keys: tuple[str, ...]
    "`type base64`, as reported by the VM. Empty without a report."


def ssh(
    session: Session,
    lease: Annotated[
        str,
        typer.Argument(metavar="LEASE", help="Id, or unique name of a lease.", autocompletion=active_leases),
    ],
    rest: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: further options of ssh, then a command to run on the VM."),
    ] = None,
    *,
    identity: Annotated[
        Path | None, typer.Option("-i", "--identity", metavar="FILE", help="Private key for the login.")
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the command without running it.")] = False,
) -> None:
    """Log in to the VM of an active lease, or run a command on it. Only that VM's own host keys are accepted.

    The command exits with the exit code of ssh.
    """
    session.refuse_csv("ssh")
    vm = target(_lease(session.api(), lease))
    words = arguments(vm, state_directory(os.environ), identity=identity, rest=rest or ())
    if only_print:
        sys.stdout.write(shlex.join(words) + "\n")
        return
    if shutil.which("ssh") is None:
        msg = "ssh is not on PATH: install the OpenSSH client, or see --print"
        raise CliError(msg)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp("ssh", words)  # noqa: S606, S607 - no shell, and which ssh is for PATH to say


def target(lease: Json) -> Target:
    """The login target. Raises CliError for a lease that is not active, and for unsafe values."""
    lease_id, state = str(lease["id"]), str(lease.get("state"))
    if state != "active":
        over = lease.get("terminal") or state in _ALWAYS_OVER
        hint = "there is no VM to log in to" if over else f"wait with `gpulease lease watch {lease_id} --until active`"
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
    """The command line of ssh. If the host keys are known, also writes the file of known hosts that it names.

    If the host keys are unknown, ssh stores the first ones it receives for this VM and rejects others later.
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
    """The path of the known hosts. Raises CliError if the environment has no home directory."""
    base = environ.get("XDG_STATE_HOME", "")
    if not Path(base).is_absolute():
        if not environ.get("HOME"):
            msg = "no home directory for host keys: set HOME or XDG_STATE_HOME"
            raise CliError(msg)
        base = f"{environ['HOME']}/.local/state"
    return Path(base, "gpulease", "ssh")


def _lease(api: "Api", reference: str) -> Json:
    return api.get(f"/v1/leases/{lookup.lease_id(api, reference)}")


def _checked(pattern: re.Pattern[str], value: object, what: str) -> str:
    text = str(value)
    if not pattern.fullmatch(text):
        msg = f"the API returned {text!r} as {what}: the value is unsafe for ssh"
        raise CliError(msg)
    return text


def _port(value: object) -> int:
    if value is None:
        return 22
    if not isinstance(value, int) or not 0 < value < 65536:
        msg = f"the API returned {value!r} as port: the value is unsafe for ssh"
        raise CliError(msg)
    return value


def _host_key(value: object) -> str:
    parts = _KEY.fullmatch(str(value))
    if parts is None:
        msg = f"the API returned {value!r} as host key: the value is not a valid host key"
        raise CliError(msg)
    return f"{parts[1]} {parts[2]}"


def _keep(known: Path, text: str) -> None:
    """Writes the file atomically, because another ssh may read it. Without text, only creates the folder."""
    try:
        known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known.parent.chmod(0o700)
        if text:
            new = known.with_suffix(f".{os.getpid()}")
            new.write_text(text, encoding="ascii")
            new.replace(known)
    except OSError as error:
        msg = f"cannot store host keys in {known.parent}: {error.strerror}"
        raise CliError(msg) from None


def _quoted(path: Path) -> str:
    """Quotes a value for ssh's configuration: spaces are kept, and `%` starts no token."""
    return '"{}"'.format(str(path).replace("%", "%%"))
