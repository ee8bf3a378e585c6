"""A worker that is killed at a failpoint, forked from a process that has imported its modules.

`python -m tests.workers.kills` is that process. It reads one order a line, and answers each with one line.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.db.leases import claims
from app.domain.ids import LeaseId
from app.settings import load_settings
from tests.failpoints import build_failing
from tests.harness.databases import ROOT
from tests.workers.fleet import ACCOUNT, REGION
from workers.jobs.volumes import work_on_volumes
from workers.lifecycle.reconciler import Reconciler
from workers.observation.inventory import take_inventory
from workers.observation.watch import watch
from workers.providers.errors import ProviderError
from workers.runtime.runtime import Runtime

_MOST_SECONDS = 300.0


class Killed:
    """The process that forks workers, as the test sees it."""

    def __init__(self, child: "subprocess.Popen[str]", settings: dict[str, Any], folder: Path) -> None:
        self._child = child
        self._order = {"settings": settings, "folder": str(folder)}

    def start(self) -> int:
        """A worker that works until it is killed. Returns its process id."""
        return int(self._ask(self._order) or 0)

    def exit_code(self, pid: int) -> int | None:
        """None while it runs."""
        return self._ask({"poll": pid})

    def _ask(self, order: dict[str, Any]) -> int | None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        answer: int | None = json.loads(self._child.stdout.readline())
        return answer


@contextmanager
def killed_workers(settings: dict[str, Any], folder: Path) -> Iterator[Killed]:
    """Workers over these settings, which die at the points armed in the folder."""
    argv = [sys.executable, "-m", "tests.workers.kills"]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield Killed(child, settings, folder)


def _serve() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        answer = _poll(order["poll"]) if "poll" in order else _fork(order["settings"], Path(order["folder"]))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _poll(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _fork(settings: dict[str, Any], folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        _work(settings, folder)
    return pid


def _work(settings: dict[str, Any], folder: Path) -> None:
    """Everything that is due, again and again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    until = time.monotonic() + _MOST_SECONDS
    try:
        runtime = build_failing(folder, load_settings(**settings))
        take_inventory(runtime, ACCOUNT, REGION)
        while time.monotonic() < until:
            _pass(runtime)
    finally:
        os._exit(1)


def _pass(runtime: Runtime) -> None:
    reconciler = Reconciler(runtime)
    for row in runtime.database.all(claims.claim_due(10, runtime.settings.claim_seconds)):
        reconciler.run(LeaseId(row.id), row.claim_id)
    for job in (watch, work_on_volumes):
        with suppress(ProviderError):
            job(runtime, ACCOUNT, REGION)


if __name__ == "__main__":
    _serve()
