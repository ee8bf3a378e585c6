"""The whole local stack under measurement, with a home and ports of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

from app.local.ports import free_port
from app.local.waiting import wait_until
from bench import ending
from bench.servers import ROOT
from cloudsim.testing import NO_TLS

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_AMPLE = {"gpus": 1_000_000, "leases": 1_000_000, "spend_per_hour": "1000000"}


@dataclass(frozen=True)
class Stack:
    """A running stack and what is needed to use and to watch it. `pid` is the process that started all others."""

    pid: int
    home: Path
    api_url: str
    cloudsim_url: str
    database_url: str = field(repr=False)
    operator_key: str = field(repr=False)
    tenant_id: str
    tenant_key: str = field(repr=False)

    @property
    def api_port(self) -> int:
        """Where the API listens."""
        return int(self.api_url.rpartition(":")[2])

    def simulate(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the simulated cloud's controls."""
        answer = httpx.request(
            method, f"{self.cloudsim_url}/_sim/{path}", json=body, timeout=60, trust_env=False, verify=NO_TLS
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def ample_quota(self) -> None:
        """Let the demo tenant have as much as it wants."""
        limits = [{"resource": name, "limit": limit} for name, limit in _AMPLE.items()]
        answer = httpx.put(
            f"{self.api_url}/v1/tenants/{self.tenant_id}/quotas",
            json={"limits": limits},
            headers={"Authorization": f"Bearer {self.operator_key}"},
            timeout=30,
            trust_env=False,
            verify=NO_TLS,
        )
        answer.raise_for_status()

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Our processes by part: api, worker, inventory, cloudsim, postgres, redis."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.Process(self.pid).children(recursive=True):
            part = _part(process)
            if part is not None:
                found.setdefault(part, []).append(process)
        return found

    def cpu_seconds(self) -> dict[str, float]:
        """User and system time of each part since it started."""
        return {part: sum(_cpu(one) for one in some) for part, some in self.processes().items()}

    def memory_mib(self) -> dict[str, float]:
        """Resident, the largest process of each part; PostgreSQL's backends share most of theirs."""
        return {part: max(one.memory_info().rss for one in some) / 2**20 for part, some in self.processes().items()}


@contextmanager
def running(*arguments: str, **settings: str) -> Iterator[Stack]:
    """`python -m app.local` with these arguments and GPULEASE_* settings. Raises SystemExit when it does not come up."""
    ending.on_request()
    with tempfile.TemporaryDirectory(prefix="gpulease-bench-") as folder:
        home = Path(folder)
        # PostgreSQL may run as another user, which must be able to reach its data
        home.chmod(0o711)
        environment = {
            **os.environ,
            **{f"GPULEASE_{name.upper()}": value for name, value in settings.items()},
            "GPULEASE_WRITE_RATE_LIMIT": "1000000/minute",
            "GPULEASE_HOME": str(home / "home"),
            "GPULEASE_PORT": str(free_port()),
            "GPULEASE_CLOUDSIM_PORT": str(free_port()),
        }
        with (home / "stack.log").open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "app.local", *arguments], env=environment, cwd=ROOT, stdout=log, stderr=log
            )
        try:
            up = _await(child, home)
            _settle(up)
            yield up
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(_STOP_SECONDS)


def _await(child: subprocess.Popen[bytes], folder: Path) -> Stack:
    """The stack says that it is up by its last line."""
    log = folder / "stack.log"
    wait_until(lambda: child.poll() is not None or "Ctrl-C ends" in log.read_text(), timeout=_START_SECONDS, poll=0.2)
    credentials = folder / "home" / "credentials.json"
    if child.poll() is not None or not credentials.exists():
        raise SystemExit(f"the stack did not start:\n{log.read_text()[-2000:]}")
    known = json.loads(credentials.read_text())
    fields = ("api_url", "cloudsim_url", "database_url", "operator_key", "tenant_id", "tenant_key")
    return Stack(pid=child.pid, home=folder / "home", **{name: known[name] for name in fields})


def _settle(up: Stack) -> None:
    """Wait until what is done once after a start, the first prices of every account above all, is done."""
    with psycopg.connect(up.database_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpulease_worker")
        if not wait_until(lambda: not _starting(connection), timeout=_START_SECONDS, poll=0.5):
            raise SystemExit(f"never done yet: {', '.join(_starting(connection))}")


def _starting(connection: psycopg.Connection[tuple[str]]) -> list[str]:
    due = connection.execute("SELECT name FROM periodic_job WHERE last_ok_at IS NULL AND next_due <= now()")
    return [name for (name,) in due.fetchall()]


def _part(process: psutil.Process) -> str | None:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return None
    names = {
        "cloudsim": "-m cloudsim",
        "api": "app.server api",
        "worker": "workers worker",
        "inventory": "workers inventory",
    }
    for part, sign in {**names, "postgres": "postgres", "redis": "redis-server"}.items():
        if sign in line:
            return part
    return None


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
