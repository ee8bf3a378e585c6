"""`gpulease ssh` and `gpulease cp`: run the system's ssh and scp, which accept only the host keys of the lease's VM."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import lookup
from app.cli.completion import active_leases
from app.cli.errors import CliError, Json
from app.cli.paths import path_of
from app.cli.session import Session
from app.cli.ssh.identities import LeaseKey, identity_files, lease_keys, local_files, login_advice
from app.cli.ssh.target import Target, options, state_directory, target

if TYPE_CHECKING:
    from app.cli.client import Api

_LARGEST_PORT = 65_535
_NO_LOGIN = 255
"""The exit code of ssh and scp without a connection or a login."""
_BY_SIGNAL = 128


PORTS: Mapping[str, int] = {
    "jupyter": 8888,
    "tensorboard": 6006,
    "mlflow": 5000,
    "vllm": 8000,
    "ollama": 11_434,
    "gradio": 7860,
    "streamlit": 8501,
    "ray": 8265,
    "code-server": 8080,
}
"""The ports on which these programs listen by default."""

_SESSION = "tmux new-session -A -s gpulease"
_ATTACH = f"if command -v tmux >/dev/null; then exec {_SESSION}; else echo 'no tmux on this VM: a plain shell' >&2; exec \"$SHELL\" -l; fi"
_SCRIPT_OUTPUT = (
    "if systemctl cat google-startup-scripts.service >/dev/null 2>&1; "
    "then exec sudo journalctl --no-pager -u google-startup-scripts.service {journal}; "
    "else exec sudo tail -n +1 {tail} /var/log/cloud-init-output.log; fi"
)
"""Where the output of a start-up script is: docs/startup-scripts.md."""


def forwarding(text: str) -> str:
    """`8888` and `jupyter` as `8888:localhost:8888`; the forms of ssh stay as they are."""
    text = str(PORTS.get(text, text))
    if not text.isascii() or not text.isdigit():
        if ":" not in text and "/" not in text:
            msg = f"{text!r}: use a port such as 8888, a name ({', '.join(PORTS)}), or PORT:HOST:HOSTPORT as for ssh"
            raise typer.BadParameter(msg)
        return text
    if not 0 < int(text) <= _LARGEST_PORT:
        msg = f"{text} is not a port: use 1 to {_LARGEST_PORT}"
        raise typer.BadParameter(msg)
    return f"{text}:localhost:{text}"


Identity = Annotated[Path | None, typer.Option("-i", "--identity", metavar="FILE", help="Private key for the login.")]
Forward = Annotated[
    list[str] | None,
    typer.Option(
        "-L",
        "--forward",
        metavar="PORT",
        parser=forwarding,
        help="Forward a port of this machine to the VM: PORT, a name such as jupyter, or PORT:HOST:HOSTPORT; repeatable.",
    ),
]
OnlyPrint = Annotated[bool, typer.Option("--print", help="Print the command without running it.")]


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
    forward: Forward = None,
    no_shell: Annotated[bool, typer.Option("-N", "--no-shell", help="Only forward ports, until Ctrl-C.")] = False,
    identity: Identity = None,
    only_print: OnlyPrint = False,
) -> None:
    """Log in to the VM of an active lease, or run a command on it. Only that VM's own host keys are accepted.

    The command exits with the exit code of ssh.
    """
    session.refuse_csv("ssh")
    login = Login.of(_lease(session.api(), lease), identity, local_files(os.environ))
    more = [word for forwarded in forward or () for word in ("-L", forwarded)] + (["-N"] if no_shell else [])
    # options after the host are options to ssh as well; where both name one, the first counts
    login.run(session, [*login.command("ssh"), *more, login.vm.host, *(rest or ())], only_print=only_print)


def attach(
    session: Session,
    lease: Annotated[
        str,
        typer.Argument(metavar="LEASE", help="Id, or unique name of a lease.", autocompletion=active_leases),
    ],
    *,
    forward: Forward = None,
    identity: Identity = None,
    only_print: OnlyPrint = False,
) -> None:
    """Log in to a shell that continues when the connection ends, and to the same one again: tmux on the VM.

    Without tmux on the VM, it is a plain shell.
    """
    ssh(session, lease, ["-t", _ATTACH], forward=forward, identity=identity, only_print=only_print)


def logs(
    session: Session,
    lease: Annotated[
        str,
        typer.Argument(metavar="LEASE", help="Id, or unique name of a lease.", autocompletion=active_leases),
    ],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print further lines, until Ctrl-C.")] = False,
    identity: Identity = None,
    only_print: OnlyPrint = False,
) -> None:
    """Show the output of the start-up script, by a login to the VM. `gpulease lease console` shows that of a failed boot."""
    line = _SCRIPT_OUTPUT.format(journal="-f -n all" if follow else "", tail="-F" if follow else "")
    ssh(session, lease, [line], identity=identity, only_print=only_print)


def cp(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SRC", help="A local path, or LEASE:PATH.")],
    destination: Annotated[str, typer.Argument(metavar="DST", help="A local path, or LEASE:PATH.")],
    *,
    recursive: Annotated[bool, typer.Option("-r", "--recursive", help="Copy folders with their contents.")] = False,
    identity: Identity = None,
    only_print: OnlyPrint = False,
) -> None:
    """Copy files to or from the VM of an active lease, such as `gpulease cp model.pt train-1:models/`.

    Write a local path with a colon as ./PATH. The command exits with the exit code of scp.
    """
    session.refuse_csv("cp")
    places = [place(text) for text in (source, destination)]
    (reference,) = _references(places)
    login = Login.of(_lease(session.api(), reference), identity, local_files(os.environ))
    line = login.command("scp") + (["-r"] if recursive else [])
    paths = [path if name is None else f"{_address(login.vm)}:{path}" for name, path in places]
    login.run(session, [*line, "--", *paths], only_print=only_print)


def place(text: str) -> tuple[str | None, str]:
    """Lease and path of a place to copy from or to. A local path has no lease. The rule is that of scp."""
    name, colon, path = text.partition(":")
    if not colon or "/" in name:
        return None, text
    if not name:
        msg = f"{text!r}: write LEASE:PATH, or ./{text} for a local file"
        raise typer.BadParameter(msg)
    return name, path


@dataclass(frozen=True)
class Login:
    """A VM, and the private keys with which ssh and scp log in to it."""

    vm: Target
    keys: list[LeaseKey]
    files: list[Path]

    @classmethod
    def of(cls, lease: Json, identity: Path | None, local: Mapping[str, Path]) -> "Login":
        """`identity`: the private key that the user named. `local`: this machine's keys. Raises CliError as `target` does."""
        keys = lease_keys(lease, local)
        return cls(target(lease), keys, identity_files(keys, identity))

    def command(self, program: str) -> list[str]:
        """The program with its options. Writes the file of host keys that they name."""
        settings = options(self.vm, state_directory(os.environ)) | ({"IdentitiesOnly": "yes"} if self.files else {})
        line = [program, *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
        return line + [word for file in self.files for word in ("-i", str(file))]

    def run(self, session: Session, words: Sequence[str], *, only_print: bool) -> None:
        """Runs the program of the first word and exits with its code, or prints the command line.

        After a failed login, the advice names the keys of the lease. Raises CliError without the program.
        """
        if only_print:
            sys.stdout.write(shlex.join(words) + "\n")
            return
        code = _exit_code(words)
        for line in login_advice(self.keys, self.files) if code == _NO_LOGIN else ():
            session.note(line)
        raise typer.Exit(code)


def _exit_code(words: Sequence[str]) -> int:
    """Runs a program at this terminal. 128 and the signal's number when a signal ended it, as a shell reports it."""
    program = words[0]
    if shutil.which(program) is None:
        msg = f"{program} is not on PATH: install the OpenSSH client, or see --print"
        raise CliError(msg)
    sys.stdout.flush()
    sys.stderr.flush()
    # Ctrl-C reaches the program as well, which decides what it means
    signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen(list(words)) as child:  # which ssh or scp is for PATH to say
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _: child.send_signal(received))
        code = child.wait()
    return code if code >= 0 else _BY_SIGNAL - code


def _references(places: Sequence[tuple[str | None, str]]) -> list[str]:
    """The one lease among both places. Raises BadParameter for none or two."""
    references = [name for name, _ in places if name is not None]
    if not references:
        raise typer.BadParameter("both paths are local: name the VM's path as LEASE:PATH")
    if len(references) > 1:
        raise typer.BadParameter("both paths are on VMs: copy to this machine first, then to the other VM")
    return references


def _address(vm: Target) -> str:
    """The host in front of a path. scp takes the colons of a bare IPv6 address for the one before the path."""
    return f"[{vm.host}]" if ":" in vm.host else vm.host


def _lease(api: "Api", reference: str) -> Json:
    return api.get(path_of("/v1/leases", lookup.lease_id(api, reference)))
