"""The whole stack as a user starts it, in a home and on ports of its own, and the means to kill its processes."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import httpx
import psutil

from app.local import programs
from app.local.embedded_postgres import EmbeddedCluster
from app.local.home import Home
from app.local.leftovers import argv_of, end_leftovers, is_supervisor, processes_of
from app.local.ports import free_port
from app.local.supervision import Supervisor
from app.local.waiting import wait_until
from app.settings.timing import layered, timing
from cloudsim.testing import NO_TLS
from tests.failpoints import FOLDER
from tests.harness.databases import ROOT
from tests.harness.forks import ForkServer, Program, start

PATIENCE = 120.0
"""Seconds for whatever has to happen some time: a machine may be slow, and how fast things go is for `bench/` to say."""

_START = 5 * PATIENCE
"""Seconds for the start of the stack, beside other work on a small machine."""

IMPORTS = (
    "app.local.stack",
    "supervisor.supervisord",
    "supervisor.rpcinterface",
    *programs.MIGRATION_IMPORTS,
    *programs.CLOUD_IMPORTS,
    *programs.API_IMPORTS,
    *programs.WORKER_IMPORTS,
    "workers.providers.aws.adapter",
)
"""What the processes of every stack import. The adapters of other clouds are imported by a stack that needs them."""
FAILPOINTS = "failpoints"
CALL_TIMEOUT, CONNECT_TIMEOUT = 3.0, 1.0

# Short where a test would only wait, and not shorter: what four stacks do without being asked takes CPU from the tests.
# The protocol's own times stay as the profile has them.
INTERVALS: Mapping[str, str] = {
    **timing(
        inventory_interval=2,
        inventory_first_interval=1,
        watch_interval=0.6,
        sweep_interval=0.4,
        sequencer_interval=0.3,
        recount_interval=5,
        call_timeout=CALL_TIMEOUT,
        connect_timeout=CONNECT_TIMEOUT,
        claim_seconds=8,
        launch_timeout=PATIENCE,
        boot_timeout=PATIENCE,
    ),
    # healthy VMs stay so while a slow machine starts everything anew
}


@dataclass(frozen=True)
class Credentials:
    """What the stack wrote for its user."""

    api_url: str
    cloudsim_url: str
    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    operator_key: str = field(repr=False)
    tenant_id: str
    tenant_key: str = field(repr=False)


class Stack:
    """A running stack. `failpoints`: the folder that tells its workers where to fail (see tests/failpoints)."""

    def __init__(self, home: Home, child: Program) -> None:
        self.credentials = Credentials(**json.loads(home.credentials_file.read_text(encoding="utf-8")))
        self.failpoints = home.path.with_name(FAILPOINTS)
        self._home = home
        self._child = child

    def kill(self, *programs: str) -> int:
        """SIGKILL to every process of these programs, and how many there were. The supervisor starts them again."""
        found = (process for process in processes_of(self._home) if _is_supervised(process))
        doomed = [process for process in found if _program(process) in programs]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=PATIENCE)
        return len(doomed)

    def kill_one(self, program: str) -> None:
        """SIGKILL to one process of this program, the longest running; another one takes over."""
        doomed = self.signal(program, signal.SIGKILL)
        assert doomed is not None, f"no {program} runs"
        doomed.wait(PATIENCE)

    def signal(self, program: str, number: signal.Signals) -> psutil.Process | None:
        """A signal to one process of this program, the longest running. None: none of it runs just now."""
        chosen = min(self.processes(program), key=psutil.Process.create_time, default=None)
        if chosen is not None:
            chosen.send_signal(number)
        return chosen

    def stop(self, *programs: str) -> None:
        """Ends every process of these programs as a power cut does. None runs until `start`."""
        supervisor = Supervisor(self._home, self._child)
        with ThreadPoolExecutor(1) as stopping:
            stopped = stopping.submit(supervisor.stop, programs)
            wait_until(lambda: not self.kill(*programs) and stopped.done(), timeout=PATIENCE, poll=0.1)
            stopped.result()

    def start(self, *programs: str) -> None:
        """Starts the processes of these programs, without waiting until they are ready."""
        for program in programs:
            Supervisor(self._home, self._child).start(program)

    @property
    def home(self) -> Home:
        """Where the stack keeps its state."""
        return self._home

    @property
    def cluster(self) -> EmbeddedCluster:
        """The stack's PostgreSQL server."""
        parts = urlsplit(self.credentials.database_url)
        assert parts.port is not None
        return EmbeddedCluster(self._home.postgres, parts.port, unquote(str(parts.password)))

    def processes(self, program: str) -> list[psutil.Process]:
        """The processes of this program that run."""
        return [p for p in processes_of(self._home) if _is_supervised(p) and _program(p) == program]

    def wait_until_ready(self) -> None:
        """Until the API, its database, its broker, a worker and an inventory all say that they are well."""
        assert wait_until(self._ready, timeout=PATIENCE, poll=0.1), "the stack did not come back"

    def _ready(self) -> bool:
        try:
            answer = httpx.get(f"{self.credentials.api_url}/readyz", timeout=5, verify=NO_TLS)
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK and set(answer.json()["checks"].values()) == {"ok"}


def _program(process: psutil.Process) -> str | None:
    """`api`, `worker`, `inventory`, `redis` or `postgres` (its postmaster alone)."""
    argv = argv_of(process)
    name = Path(argv[0]).name if argv else ""
    if name in ("redis-server", "postgres"):
        return name.removesuffix("-server")
    return argv[3] if argv[1:2] == ["-m"] and argv[2] in ("app.server", "tests.failpoints") else None


def _is_supervised(process: psutil.Process) -> bool:
    """Not the children of a supervised process, which for a moment look like it."""
    try:
        parent = process.parent()
        return parent is not None and is_supervisor(parent)
    except psutil.Error:
        return False


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    forks: ForkServer | None = None,
) -> Iterator[Stack]:
    """Start a stack with these arguments of `gpulease up` and settings, hand it out when it is ready, end it.

    `forks`: it is forked. Without, it is a new interpreter.
    """
    home, failpoints = Home(folder / "home"), folder / FAILPOINTS
    failpoints.mkdir()
    own = {
        "GPULEASE_PORT": str(free_port()),
        "GPULEASE_CLOUDSIM_PORT": str(free_port()),
        "GPULEASE_HOME": str(home.path),
        FOLDER: str(failpoints),
        "PYTHONPATH": str(ROOT),
    }
    environment = layered(os.environ, INTERVALS, own, settings)
    said = folder / "said"
    argv = [sys.executable, "-m", "tests.failpoints.stack", "--profile", "fast", "--gpu-agents", "0", *arguments]
    child = start(argv, environment, said) if forks is None else forks.start(argv, environment, said, imports=IMPORTS)
    try:
        wait_until(lambda: "Ctrl-C ends" in said.read_text() or child.poll() is not None, timeout=_START, poll=0.1)
        assert child.poll() is None, said.read_text()
        yield Stack(home, child)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(PATIENCE)
        end_leftovers(home)
