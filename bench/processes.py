"""Processes under measurement: started here, watched and ended by their id."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from app.local.waiting import wait_until
from bench.servers import ROOT
from cloudsim.testing import NO_TLS

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Process:
    """One running process and where its output goes."""

    pid: int
    log: Path

    def cpu_seconds(self) -> float:
        """User and system time since its start, its threads included."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def memory_mib(self) -> float:
        """Resident now."""
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20


@contextmanager
def python(
    module: str, *arguments: str, environment: Mapping[str, str], folder: Path, url: str = ""
) -> Iterator[Process]:
    """Run a module until the block ends. With `url`, wait until that answers 200. Raises SystemExit with the log's end."""
    log = folder / f"{module}-{'-'.join(arguments)}.log".replace("/", "-")
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        if url and not (
            wait_until(lambda: child.poll() is not None or _answers(url), timeout=_START_SECONDS) and _answers(url)
        ):
            raise SystemExit(f"{module} did not start:\n{log.read_text(errors='replace')[-2000:]}")
        yield Process(child.pid, log)
    finally:
        _end(child)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False, verify=NO_TLS).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(_STOP_SECONDS)
