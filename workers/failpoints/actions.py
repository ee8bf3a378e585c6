"""What a process does at a failpoint, and how it is told to: by files, so that a process that starts anew goes on.

A file `POINT` or `POINT@KEY` in the folder arms a point, for a lease's id or an account's name when there is a key. Whoever
reaches the point takes the file away first, so that it acts once, whatever processes there are. It holds JSON:
{"action": kill, exception, hang, postgres_gone or late, "seconds": how long it hangs, or is late at most, "over": see `late`}.
"""

import json
import os
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg
import structlog

from workers.failpoints.late import wait_for_another

HIT = ".hit"
RESUMED = ".resumed"
"""Added to a late point's name when the thread goes on: JSON {"late": whether another worker had finished by then}."""
_LATE = ".late"
TRACE = "trace"
"""Where there is a file of this name, every point that is reached is added to it: `POINT KEY`."""

_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'gpulease-worker' AND usename = current_user
"""


class Action(StrEnum):
    """`hang`: for some seconds, then it goes on. `postgres_gone`: every connection of the workers is cut.

    `late`: the thread stalls, with no transaction open, until its claim is lost and another worker has finished; then it
    goes on as if nothing had happened.
    """

    KILL = "kill"
    EXCEPTION = "exception"
    HANG = "hang"
    POSTGRES_GONE = "postgres_gone"
    LATE = "late"


class FailpointError(Exception):
    """Raised on purpose: what a bug in a step would do."""


def arm(folder: Path, point: str, action: Action, *, key: str = "", seconds: float = 0.0, over: bool = False) -> Path:
    """From now on the point acts, once. Answers the file that is there from when it has.

    `over`: a late thread goes on when the lease is over, else when another worker has let it rest.
    """
    file = folder / (_name(point, key) + (_LATE if action is Action.LATE else ""))
    written = file.with_name(f".{file.name}")
    written.write_text(json.dumps({"action": action, "seconds": seconds, "over": over}), encoding="utf-8")
    written.rename(file)
    return file.with_name(file.name + HIT)


class Arms:
    """The folder, as a process sees it."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._database_url = database_url

    def reach(self, point: str) -> Action | None:
        """The action that was taken at the point, for one that leaves something to the caller. Raises FailpointError."""
        key = _key()
        self._trace(point, key)
        order = self._take(_name(point, key)) or self._take(_name(point, ""))
        if order is None:
            return None
        action, seconds = Action(order["action"]), float(order["seconds"])
        match action:
            case Action.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()
            case Action.EXCEPTION:
                raise FailpointError(point)
            case Action.HANG:
                threading.Event().wait(seconds)
            case Action.POSTGRES_GONE:
                self._cut_connections()
        return action

    def stall(self, point: str) -> None:
        """Waits at the point, where it is armed to be late. Nothing may be locked meanwhile."""
        for name in (_name(point, _key()), _name(point, "")):
            order = self._take(name + _LATE)
            if order is not None:
                late = wait_for_another(self._database_url, float(order["seconds"]), over=bool(order["over"]))
                (self._folder / (name + _LATE + RESUMED)).write_text(json.dumps({"late": late}), encoding="utf-8")
                return

    def _take(self, name: str) -> dict[str, Any] | None:
        taken = self._folder / (name + HIT)
        try:
            (self._folder / name).rename(taken)
        except FileNotFoundError:
            return None
        order: dict[str, Any] = json.loads(taken.read_text(encoding="utf-8"))
        return order

    def _trace(self, point: str, key: str) -> None:
        try:
            trace = os.open(self._folder / TRACE, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return
        try:
            os.write(trace, f"{point} {key}\n".encode())
        finally:
            os.close(trace)

    def _cut_connections(self) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            connection.execute(_CUT)


def _name(point: str, key: str) -> str:
    return f"{point}@{key}" if key else point


def _key() -> str:
    """The lease that this thread moves, or the account that its job is about: as they stand in each log line."""
    bound = structlog.contextvars.get_contextvars()
    lease_id, job = bound.get("lease_id"), bound.get("job", "")
    return str(lease_id) if lease_id else job.split("/")[1] if "/" in job else ""
