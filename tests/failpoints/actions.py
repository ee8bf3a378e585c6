"""The actions of a process at a failpoint. Files arm the points, so that a restarted process reads the same state.

A file `POINT` or `POINT@KEY` in the folder arms a point. A key restricts the point to a lease's id or an account's
name. The process that reaches the point first renames the file, so that the point acts once among all processes. The
file holds JSON: {"action": see `Action`, "seconds": how long the point hangs, or at most waits, "over": see `late`}.
"""

import json
import os
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import structlog

from app.db.core.connections import WORKER_ROLE
from tests.failpoints.late import wait_for, wait_for_another
from workers.runtime.permits import without_permit

HIT = ".hit"
RESUMED = ".resumed"
"""Suffix of the file written when a late thread continues: JSON {"late": whether another worker had finished}. After the
action `hostile` the test writes it, when the reports have been answered."""
_LATE = ".late"
TRACE = "trace"
"""If a file of this name exists, each reached point appends a line to it: `POINT KEY`."""

_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'gpulease-worker' AND usename = current_user
"""


_END_PERIODS = """
UPDATE budget SET period_ends_at = period_started_at, period_started_at = period_started_at - CAST('1 ' || period AS interval)
WHERE id IN (SELECT id FROM budget WHERE period <> 'lifetime' AND period_ends_at > now() FOR UPDATE SKIP LOCKED)
"""
"""As at midnight: the stored period of each budget is over, and nobody has begun the present one."""


class Action(StrEnum):
    """`hang`: the thread waits some seconds and continues. `postgres_gone`: every connection of the workers is cut.

    `period_over`: the periods of all budgets end. `late`: the thread stalls, with no transaction open, until its claim is
    lost and another worker has finished. Then it continues as before. `hostile`: the thread waits, with its locks, until
    a hostile tenant's reports have been answered.
    """

    KILL = "kill"
    EXCEPTION = "exception"
    HANG = "hang"
    POSTGRES_GONE = "postgres_gone"
    PERIOD_OVER = "period_over"
    LATE = "late"
    HOSTILE = "hostile"


class FailpointError(Exception):
    """Raised on purpose, to simulate a bug in a step."""


def arm(folder: Path, point: str, action: Action, *, key: str = "", seconds: float = 0.0, over: bool = False) -> Path:
    """Arms a point for one action. Returns the path of the file that exists once the point has acted.

    `over`: a late thread continues when the lease is over, else when another worker has let the lease rest.
    """
    file = folder / (_name(point, key) + (_LATE if action is Action.LATE else ""))
    written = file.with_name(f".{file.name}")
    written.write_text(json.dumps({"action": action, "seconds": seconds, "over": over}), encoding="utf-8")
    written.rename(file)
    return file.with_name(file.name + HIT)


def resumed(hit: Path) -> Path:
    """The file that shows that the thread at the point may continue, or has continued."""
    return hit.with_name(hit.name.removesuffix(HIT) + RESUMED)


class Arms:
    """The folder of armed points, as one process reads it."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._database_url = database_url

    def reach(self, point: str) -> Action | None:
        """Acts at the point. Returns the action when it leaves a part to the caller. Raises FailpointError."""
        keys = _keys()
        for key in keys:
            self._trace(point, key)
        order = next((order for key in (*keys, "") if (order := self._take(_name(point, key))) is not None), None)
        if order is None:
            return None
        action, seconds = Action(order["action"]), float(order["seconds"])
        match action:
            case Action.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()
            case Action.EXCEPTION:
                raise FailpointError(point)
            case Action.HANG | Action.HOSTILE:
                wait_for(resumed(self._folder / (order["name"] + HIT)).exists, seconds)
            case Action.POSTGRES_GONE:
                self._execute(_CUT)
            case Action.PERIOD_OVER:
                self._execute(f"SET ROLE {WORKER_ROLE}", _END_PERIODS)
        return action

    def stall(self, point: str) -> None:
        """Waits at a point that is armed to be late. The caller must hold no lock."""
        for key in (*_keys(), ""):
            name = _name(point, key)
            order = self._take(name + _LATE)
            if order is not None:
                seconds, over = float(order["seconds"]), bool(order["over"])
                with without_permit():
                    late = wait_for_another(self._database_url, key, seconds, over=over)
                resumed(self._folder / (name + _LATE + HIT)).write_text(json.dumps({"late": late}), encoding="utf-8")
                return

    def _take(self, name: str) -> dict[str, Any] | None:
        taken = self._folder / (name + HIT)
        try:
            (self._folder / name).rename(taken)
        except FileNotFoundError:
            return None
        order: dict[str, Any] = json.loads(taken.read_text(encoding="utf-8"))
        return {**order, "name": name}

    def _trace(self, point: str, key: str) -> None:
        try:
            trace = os.open(self._folder / TRACE, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return
        try:
            os.write(trace, f"{point} {key}\n".encode())
        finally:
            os.close(trace)

    def _execute(self, *commands: LiteralString) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            for command in commands:
                connection.execute(command)


def _name(point: str, key: str) -> str:
    return f"{point}@{key}" if key else point


def _keys() -> list[str]:
    """The leases that this thread moves, or the account of its job, read from the log context. "": neither."""
    bound = structlog.contextvars.get_contextvars()
    lease_id, job = bound.get("lease_id"), bound.get("job", "")
    if lease_id:
        return [str(lease_id)]
    return [*map(str, bound.get("lease_ids", ()))] or [job.split("/")[1] if "/" in job else ""]
