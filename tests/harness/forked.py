"""What a forked process does to become a Python program: a new interpreter would do the same, and import for seconds."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from app.local.supervisord import become

ROOM = "FORK_SERVER_ROOM"
"""A variable whose value gives way to the environment of each program."""
_LAST_DESCRIPTOR = 1 << 16


def is_forked() -> bool:
    """Whether this process, or an ancestor of it, was started by `run_forked`."""
    return _forked


_forked = False


def run_forked(
    argv: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], *, folder: str, session: bool
) -> NoReturn:
    """In a child: becomes `python -m`, and has nothing but these descriptors, as input, output and error output.

    `session`: in a session of its own.
    """
    global _forked  # noqa: PLW0603 - a fact about the process
    _forked = True
    if session:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, _LAST_DESCRIPTOR)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # pyrefly: ignore[missing-attribute]  # these are text files
    os.chdir(folder)
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    os.execv = _execv  # pyrefly: ignore[bad-assignment]  # it takes words alone
    # nothing points to the old environment any more
    os.environ.clear()
    _show(environment)
    sys.modules.pop(argv[2], None)
    become(argv[2], argv, environment)


def _execv(_path: str, argv: Sequence[str]) -> NoReturn:
    """`gpulease-server worker` replaces itself by `python -m workers`."""
    become(argv[2], argv, dict(os.environ))


def _show(environment: Mapping[str, str]) -> None:
    """Writes the environment where the system shows it (/proc/PID/environ), by which leftovers are found."""
    start, end = map(int, Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[47:49])
    block = b"".join(f"{name}={value}\0".encode(errors="surrogateescape") for name, value in environment.items())
    assert len(block) < end - start
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(block.ljust(end - start, b"\0"))


def fork_interpreter(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: BinaryIO, words: bytes
) -> "ForkedChild":
    """Takes the place of `app.local.supervision.interpreter` in a process that was forked itself."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        run_forked(argv, environment, [source, nowhere, log.fileno()], folder=str(folder), session=True)
    os.close(source)
    with os.fdopen(sink, "wb") as pipe:
        pipe.write(words)
    return ForkedChild(pid)


class ForkedChild:
    """With the methods of `subprocess.Popen` that a stack needs of its supervisord."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None
        self._process = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self._pid), timeout or 0)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._process, number)

    def _read(self, timeout: float | None) -> int | None:
        if self._code is None and select.select([self._process], [], [], timeout)[0]:
            _, status = os.waitpid(self._pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code
