"""Processes of a trial: each with a log, a user, and a network namespace of its own where wanted."""

import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from app.local.waiting import wait_until
from tests.harness.databases import ROOT

STOP_SECONDS = 150.0
FINISH_SECONDS = 180.0
CLEAN_ENDS = frozenset({0, -signal.SIGTERM, 128 + signal.SIGTERM})
"""After SIGTERM. The API ends in order and then by the signal itself, as uvicorn does; a container's runtime adds 128."""


class TrialError(Exception):
    """What did not come about, with the end of the log."""


def as_user(name: str | None) -> list[str]:
    """The words before a command that make it run as this user."""
    if name is None:
        return []
    entry = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]


def clean_environment() -> dict[str, str]:
    """The caller's, without what would lead the programs elsewhere."""
    prefixes = ("PG", "GPULEASE_", "AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


class Process:
    """One process. `command` is its whole command line, with what goes before it to choose user and namespace."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self.environment = dict(environment)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def send(self, number: int) -> None:
        """To the process, if it lives."""
        if self._child is not None and self.alive:
            self._child.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """The exit code. Raises TrialError when it does not end in time."""
        assert self._child is not None
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TrialError(f"{self.name} did not end within {seconds:.0f} s:\n{self.last_lines()}") from None

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait()

    def end(self) -> None:
        """At the end of a trial, whatever state it is in."""
        if self._child is None or not self.alive:
            return
        for number, seconds in ((signal.SIGCONT, 0.0), (signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
            self._child.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(seconds)
                return

    def last_lines(self, count: int = 15) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])


def run(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    standard_input: str = "",
    seconds: float = FINISH_SECONDS,
) -> str:
    """What it writes to standard output. Raises TrialError with all it said when it fails."""
    done = finish(command, environment, standard_input=standard_input, seconds=seconds)
    if done.returncode:
        raise TrialError(f"{name} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def finish(
    command: Sequence[str], environment: Mapping[str, str], *, standard_input: str = "", seconds: float = FINISH_SECONDS
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, however it ends. Raises TrialError when it does not."""
    try:
        return subprocess.run(
            list(command),
            cwd=ROOT,
            env=dict(environment),
            input=standard_input,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise TrialError(f"{' '.join(command[:6])} … did not end within {seconds:.0f} s") from None


def expect(condition: object, message: str) -> None:
    """Raises TrialError with the message unless the condition holds."""
    if not condition:
        raise TrialError(message)


def await_(what: str, condition: Callable[[], bool], seconds: float, poll: float = 0.1) -> None:
    """Raises TrialError when the condition does not hold within so long."""
    if not wait_until(condition, timeout=seconds, poll=poll):
        raise TrialError(f"not within {seconds:.0f} s: {what}")
