"""One supervisord as a child of the stack, spoken to over a unix socket."""

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import SupervisorTransport

from app.local.home import Home
from app.local.leftovers import SUPERVISORD
from app.local.waiting import wait_until
from app.settings import StartupError

SOCKET_SECONDS = 90.0
"""For supervisord's imports, on a slow machine that is busy."""
SHUTDOWN_SECONDS = 90.0
LOG_LINES = 12

ENDED = frozenset({"STOPPED", "EXITED", "FATAL"})


@dataclass(frozen=True)
class Process:
    """One supervised process as supervisord sees it.

    `has_ended`: at least once since supervisord started. `exit_code`: of its latest end.
    """

    group: str
    name: str
    state: str
    has_ended: bool
    exit_code: int
    log: Path


class Child(Protocol):
    """What is needed of a child process."""

    def poll(self) -> int | None:
        """The exit code. None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None:
        """Sends SIGTERM."""

    def kill(self) -> None:
        """Sends SIGKILL."""


class Supervisor:
    """The running supervisord of one stack."""

    def __init__(self, home: Home, child: Child) -> None:
        self._home = home
        self._child = child

    def await_calls(self) -> None:
        """Wait until supervisord takes calls. Raises StartupError with the end of its output."""
        wait_until(lambda: self.answers() or not self.alive, timeout=SOCKET_SECONDS)
        if not self.answers():
            if self.alive:
                self.shut_down()
            raise StartupError(f"supervisord did not start:\n{last_lines(self._home.supervisor_output)}")

    def start(self, group: str) -> None:
        """Start the processes of a program; does not wait for them."""
        self._call("startProcessGroup", group, False)  # noqa: FBT003 - the library's positional `wait`

    def processes(self, group: str) -> list[Process]:
        """The processes of a program."""
        rows: list[dict[str, Any]] = self._call("getAllProcessInfo")
        return [
            Process(
                group=row["group"],
                name=row["name"],
                state=row["statename"],
                has_ended=bool(row["stop"]),
                exit_code=row["exitstatus"],
                log=self._home.path / row["stdout_logfile"],
            )
            for row in rows
            if row["group"] == group
        ]

    def broken(self, group: str) -> Process | None:
        """A process of the program that has ended, if there is one, even when it runs again."""
        return next((process for process in self.processes(group) if process.has_ended), None)

    def run(self, group: str) -> Process:
        """Start a program that ends by itself, and wait for its end, however long that takes. Raises StartupError."""
        self.start(group)
        wait_until(lambda: not self.alive or self._ended(group), timeout=math.inf)
        if not self.alive:
            raise StartupError(f"supervisord was killed, see {self._home.logs}")
        (process,) = self.processes(group)
        return process

    def stop(self, groups: Iterable[str]) -> None:
        """Stop several programs at once, those of them that there are, and wait until all have ended."""
        present = {row["group"] for row in self._call("getAllProcessInfo")}
        names = [group for group in groups if group in present]
        for group in names:
            self._call("stopProcessGroup", group, False)  # noqa: FBT003 - the library's positional `wait`
        wait_until(lambda: all(self._ended(group) for group in names), timeout=SHUTDOWN_SECONDS, poll=0.1)

    def wait(self) -> int:
        """Wait until supervisord itself ends, which it does only when it is killed."""
        return self._child.wait()

    def shut_down(self) -> None:
        """End supervisord and with it every program that still runs."""
        self._child.terminate()
        try:
            self._child.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    @property
    def alive(self) -> bool:
        """Whether supervisord runs."""
        return self._child.poll() is None

    def answers(self) -> bool:
        """Whether supervisord takes calls."""
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except (OSError, Fault):
            return False

    def _ended(self, group: str) -> bool:
        return all(process.state in ENDED for process in self.processes(group))

    def _call(self, method: str, *arguments: object) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self._home.supervisor_socket}")
        try:
            with ServerProxy("http://localhost", transport=transport) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        finally:
            transport.close()


def launch(
    home: Home,
    config: str,
    environment: Mapping[str, str],
    imports: Iterable[str] = (),
    private: Mapping[str, Mapping[str, str]] | None = None,
) -> Supervisor:
    """Start supervisord with this configuration, in the home, without waiting until it takes calls.

    It has a session of its own: Ctrl-C reaches the stack alone.

    `imports`: modules that supervisord imports first, for the Python programs that it starts.
    `private`: variables by the name of the one program that gets them. They are in no file, and in no other environment.
    """
    home.logs.mkdir(mode=0o700, exist_ok=True)
    home.supervisor_socket.unlink(missing_ok=True)
    home.supervisor_config.write_text(config, encoding="utf-8")
    argv = [sys.executable, "-m", SUPERVISORD, *(word for module in imports for word in ("--import", module))]
    # without SPT_NOENV, the title of a process may overwrite its environment, which leftovers are known by
    complete = {**environment, "SPT_NOENV": "1"}
    words = json.dumps({name: dict(values) for name, values in (private or {}).items()}).encode()
    with home.supervisor_output.open("wb") as log:
        return Supervisor(
            home, interpreter([*argv, "-c", str(home.supervisor_config)], complete, home.path, log, words)
        )


def interpreter(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: BinaryIO, words: bytes
) -> Child:
    """A new interpreter in a session of its own. `words`: what it reads from its standard input."""
    child = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    assert child.stdin is not None
    with child.stdin:
        child.stdin.write(words)
    return child


def last_lines(log: Path, count: int = LOG_LINES) -> str:
    """The end of a log file."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
    except OSError:
        return ""
