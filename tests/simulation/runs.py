"""Runs many seeds at once: several processes, each with a PostgreSQL server of its own.

With a server in common a seed could run differently: the transactions of one database decide when another one reuses the
space of old rows, and with it the order of rows that no ORDER BY tells apart.
"""

import secrets
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from app.local import embedded_postgres
from app.local.ports import free_port
from app.settings.memory import settle_memory
from tests.harness.databases import Databases
from tests.simulation.database import Clocked
from tests.simulation.world import Outcome, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One seed's outcome and what it took: real seconds, and CPU seconds of Python and of PostgreSQL."""

    outcome: Outcome
    wall: float
    python_cpu: float
    postgres_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """A process that runs one seed at a time, and the URL of its server."""

    process: ProcessPoolExecutor
    admin_url: str


def run_seeds(seeds: Iterable[int], processes: int) -> Iterator[Run]:
    """Yields each run when it ends. A caller that stops early waits only for the seeds that are running."""
    waiting = iter(seeds)
    running: dict[Future[Run], _Lane] = {}

    def start(lane: _Lane) -> None:
        seed = next(waiting, None)
        if seed is not None:
            running[lane.process.submit(run_seed, lane.admin_url, seed)] = lane

    with ExitStack() as stack:
        for _ in range(processes):
            admin_url = stack.enter_context(server())
            process = ProcessPoolExecutor(1, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
            start(_Lane(process=stack.enter_context(process), admin_url=admin_url))
        while running:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                start(running.pop(future))
                yield future.result()


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server for one process: the superuser's URL."""
    with TemporaryDirectory(prefix="gpulease-simulation-") as folder:
        settings = {**embedded_postgres.SETTINGS, **embedded_postgres.FORGETFUL}
        cluster = embedded_postgres.EmbeddedCluster(
            Path(folder) / "postgres", free_port(), secrets.token_hex(16), settings
        )
        with embedded_postgres.running(cluster):
            yield cluster.admin_url


def run_seed(admin_url: str, seed: int) -> Run:
    """Runs one seed in the database of this process, which is made at the first call and goes with the server."""
    clocked = _own_database(admin_url)
    backend = psutil.Process(clocked.server_pid)
    began, python, postgres = time.monotonic(), time.process_time(), _cpu_seconds(backend)
    outcome = simulate(clocked, seed)
    return Run(
        outcome=outcome,
        wall=time.monotonic() - began,
        python_cpu=time.process_time() - python,
        postgres_cpu=_cpu_seconds(backend) - postgres,
    )


@cache
def _own_database(admin_url: str) -> Clocked:
    databases = Databases(admin_url)
    url = databases.create()
    settle_memory()
    return Clocked(databases.owner_url, url)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
