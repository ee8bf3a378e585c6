"""The VM of a lease as a target of ssh: validated values, and the host keys that ssh accepts for it.

Each value of the API is validated before it becomes an argument or a line of a file. An address that begins with a
minus would be an option of ssh. A line break in a key would add a key for another host.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.cli.errors import CliError, Json
from app.cli.render.output import at

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_KEY = re.compile(r"([a-z0-9][a-zA-Z0-9@.-]*) ([A-Za-z0-9+/]+=*)( .*)?")
_ALWAYS_OVER = frozenset({"released", "failed", "releasing"})
_CONNECT_SECONDS = "20"
"""A closed port 22 answers nothing, and the system's own limit is two minutes."""


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


def options(vm: Target, directory: Path) -> dict[str, str]:
    """The options of OpenSSH's clients for this VM. If the host keys are known, also writes the file that they name.

    If the host keys are unknown, ssh stores the first ones it receives for this VM and rejects others later.
    """
    known = directory / f"{vm.lease_id}-{vm.attempt}.{'known' if vm.host_keys else 'seen'}"
    _keep(known, "".join(f"{vm.lease_id} {key}\n" for key in vm.host_keys))
    return {
        "HostKeyAlias": vm.lease_id,
        "UserKnownHostsFile": quoted(known),
        "StrictHostKeyChecking": "yes" if vm.host_keys else "accept-new",
        **({"User": vm.user} if vm.user else {}),
        "Port": str(vm.port),
        "ConnectTimeout": _CONNECT_SECONDS,
    }


def state_directory(environ: Mapping[str, str]) -> Path:
    """The path of the known hosts. Raises CliError if the environment has no home directory."""
    base = environ.get("XDG_STATE_HOME", "")
    if not Path(base).is_absolute():
        if not environ.get("HOME"):
            msg = "no home directory for host keys: set HOME or XDG_STATE_HOME"
            raise CliError(msg)
        base = f"{environ['HOME']}/.local/state"
    return Path(base, "gpulease", "ssh")


def quoted(path: Path) -> str:
    """Quotes a value for ssh's configuration: spaces are kept, and `%` starts no token.

    Raises CliError for a path that ssh would not read as it is: control characters, and `${`, which has no escape.
    """
    text = str(path)
    if not text.isprintable() or "${" in text:
        msg = f"OpenSSH cannot read the path {text!r}: use another one"
        raise CliError(msg)
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"))


def write_private(path: Path, text: str) -> None:
    """Writes a file of the user's own atomically, because an ssh may read it. Raises OSError."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.touch(mode=0o600)
    new.write_text(text, encoding="utf-8")
    new.replace(path)


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
    """Stores the host keys. Without text, only creates the folder."""
    try:
        known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known.parent.chmod(0o700)
        if text:
            write_private(known, text)
    except OSError as error:
        msg = f"cannot store host keys in {known.parent}: {error.strerror}"
        raise CliError(msg) from None
