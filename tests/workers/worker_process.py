"""Worker processes of their own beside a fleet, and what a test sees of their claims."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app.local.programs import WORKER_IMPORTS
from app.local.waiting import wait_until
from app.settings.timing import timing
from tests.harness.forks import ForkServer, Program, start
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.inventory import take_inventory

PATIENCE = 60.0
SETTINGS: Mapping[str, str] = {
    # a claim that nobody frees is still held long after the test
    **timing(claim_seconds=90, call_timeout=5, connect_timeout=1, sweep_interval=0.2, watch_interval=0.3),
    "GPULEASE_WORKER_THREADS": "4",
    "GPULEASE_PROVIDER_RATE_LIMITS": "false",
    "GPULEASE_AGENT": "off",
}

_IMPORTS = (*WORKER_IMPORTS, "workers.providers.aws.adapter")
_STRANDED = text(
    """
    SELECT id, claim_id FROM lease
    WHERE held_until > now() AND ended_at IS NULL
      AND ('x' || substr(claim_id::text, 1, 8))::bit(32)::bigint NOT IN (
        SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted)
    """
)
_SERVER_AGE = text("SELECT extract(epoch FROM now() - pg_postmaster_start_time()) AS seconds")


class WorkerProcess:
    """`python -m workers worker` or another kind, with its output in a file."""

    def __init__(self, child: Program, log: Path) -> None:
        self.child = child
        self.log = log

    def lines(self) -> list[str]:
        """What it has written so far."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log lines of this event."""
        entries = [json.loads(line) for line in self.lines() if line.startswith("{")]
        return [entry for entry in entries if entry["event"] == name]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Sends the signal and waits for the end of the process. Returns the seconds that the end took."""
        began = time.monotonic()
        self.child.send_signal(number)
        self.child.wait(PATIENCE)
        return time.monotonic() - began


@contextmanager
def running(
    fleet: Fleet,
    folder: Path,
    kind: str = "worker",
    *,
    forks: ForkServer | None = None,
    listed: bool = True,
    **settings: str,
) -> Iterator[WorkerProcess]:
    """A process over the fleet's database, broker and cloud. `listed`: it may launch, a listing followed its start.

    `forks`: it is forked, as the local stack does it. Without, it is a new interpreter.
    """
    given = fleet.runtime.settings
    environment = {
        **os.environ,
        **SETTINGS,
        "GPULEASE_DATABASE_URL": given.database_url,
        "GPULEASE_BROKER_URL": given.broker_url,
        "GPULEASE_CONFIG": str(given.config),
        **settings,
    }
    log = folder / f"{kind}-{time.monotonic_ns()}.log"
    argv = [sys.executable, "-m", "workers", kind]
    child = start(argv, environment, log) if forks is None else forks.start(argv, environment, log, imports=_IMPORTS)
    process = WorkerProcess(child, log)
    try:
        assert wait_until(lambda: bool(process.events(f"{kind} started")), timeout=PATIENCE), process.lines()
        if listed:
            take_inventory(fleet.runtime, ACCOUNT, REGION)
        yield process
    finally:
        child.kill()
        child.wait(PATIENCE)


def wait_until_server_is_old(fleet: Fleet) -> None:
    """A server that has just started frees no claims of killed processes."""

    def is_old() -> bool:
        return bool(fleet.runtime.database.all(_SERVER_AGE)[0].seconds > 11)

    assert wait_until(is_old, timeout=PATIENCE, poll=0.2)


class Claims:
    """For how long leases have been claimed by no living process."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._since: dict[tuple[str, UUID], float] = {}
        self.longest = 0.0

    def look(self) -> None:
        """Notes what is so at this moment."""
        now = time.monotonic()
        stranded = {(row.id, row.claim_id) for row in self._fleet.runtime.database.all(_STRANDED)}
        self._since = {key: self._since.get(key, now) for key in stranded}
        self.longest = max([self.longest, *(now - since for since in self._since.values())])
