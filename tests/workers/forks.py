"""Worker processes as the local stack starts them: forked from a process that has imported their modules.

`python -m tests.workers.forks` is that process. It reads one order a line, and answers each with one line.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from app.local.programs import WORKER_IMPORTS
from app.local.supervisord import become
from app.local.waiting import wait_until
from tests.harness.databases import ROOT

IMPORTS = (*WORKER_IMPORTS, "workers.providers.aws.adapter")


class Forks:
    """The process with the modules, as its parent sees it."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child

    def start(self, kind: str, environment: Mapping[str, str], log: Path) -> "Fork":
        """`python -m workers <kind>` with this environment alone, and its output in `log`."""
        pid = self.ask(kind=kind, environment=dict(environment), log=str(log))
        assert isinstance(pid, int)
        return Fork(self, pid)

    def ask(self, **order: Any) -> int | None:
        """The answer to an order."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        answer: int | None = json.loads(self._child.stdout.readline())
        return answer


class Fork:
    """One worker process, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative after a signal. None while the process runs."""
        if self.returncode is None:
            self.returncode = self._forks.ask(poll=self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Does nothing when the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """The exit code. Raises TimeoutError."""
        if not wait_until(lambda: self.poll() is not None, timeout=timeout) or self.returncode is None:
            raise TimeoutError
        return self.returncode


@contextmanager
def forks() -> Iterator[Forks]:
    """The process with the modules. It ends with its standard input."""
    argv = [sys.executable, "-m", "tests.workers.forks"]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield Forks(child)


def _serve() -> None:
    gc.disable()
    for module in IMPORTS:
        import_module(module)
    gc.freeze()
    gc.enable()
    for line in sys.stdin:
        order = json.loads(line)
        answer = _exit_code(order["poll"]) if "poll" in order else _fork(**order)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _exit_code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _fork(kind: str, environment: dict[str, str], log: str) -> int:
    pid = os.fork()
    if pid == 0:
        _become_worker(kind, environment, log)
    return pid


def _become_worker(kind: str, environment: dict[str, str], log: str) -> NoReturn:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, own in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, own)
    become("workers", [sys.executable, "-m", "workers", kind], environment)


if __name__ == "__main__":
    _serve()
