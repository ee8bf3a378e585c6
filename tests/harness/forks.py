"""Python programs that are forked from a process which has imported their modules: a new interpreter takes seconds for that.

All pytest processes of a run share that process (tests/harness/fork_server.py). The first of them starts it.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.local.supervisord import FORKS
from tests.harness.databases import ROOT
from tests.harness.forked import ROOM

_LONGEST_ANSWER = 1000
_PADDING = "x" * 4096
"""Gives the titles of programs, and their environments, a place."""


class Forked:
    """A forked program, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.returncode: int | None = None
        answer = connection.recv(_LONGEST_ANSWER).decode()
        if not answer.isdecimal():
            connection.close()
            raise RuntimeError(answer or "the fork server has ended")
        self.pid = int(answer)

    def poll(self) -> int | None:
        """The exit code, negative after a signal. None while the program runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired."""
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Does nothing when the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def hang_up(self) -> None:
        """The program is told to end, and nobody hears of its end."""
        self._connection.close()

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(self._connection.recv(_LONGEST_ANSWER))
            self._connection.close()
        return self.returncode


Program = Forked | subprocess.Popen[bytes]


def start(
    argv: Sequence[str], environment: Mapping[str, str], log: Path, *, folder: Path = ROOT
) -> subprocess.Popen[bytes]:
    """A program with this environment alone, in a session of its own. Its output is appended to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


class ForkServer:
    """The process that forks. `path`: its socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        imports: Sequence[str] = (),
        folder: Path = ROOT,
    ) -> Program:
        """`python -m` with this environment alone, in a session of its own. Its output is appended to `log`.

        `imports`: what the server imports first. Where programs cannot be forked, a new interpreter is started.
        """
        if not FORKS:
            return start(argv, environment, log, folder=folder)
        with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
            order = {
                "argv": list(argv),
                "environment": dict(environment),
                "imports": list(imports),
                "folder": str(folder),
                "session": True,
            }
            connection = _connected(self.path)
            descriptors = [nothing.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(connection, [json.dumps(order).encode()], descriptors)
        return Forked(connection)


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def fork_server(folder: Path) -> Iterator[ForkServer]:
    """Starts the server, and ends it after the block. `folder`: for its socket and what it says."""
    path = folder / "forks"
    if not FORKS:
        yield ForkServer(path)
        return
    source, lifeline = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(64)
        child = _start(folder, (listener.fileno(), source))
    os.close(source)
    try:
        yield ForkServer(path)
    finally:
        os.close(lifeline)
        child.wait()


def _start(folder: Path, descriptors: tuple[int, int]) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.harness.fork_server", *map(str, descriptors), _PADDING]
    with (folder / "forks.log").open("ab") as log:
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, ROOM: 16 * _PADDING, "SPT_NOENV": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=descriptors,
        )
