"""Runs periodic jobs: any process may run any job, the database remembers when each is due."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from app.db import fleet, jobs
from workers.accounts import error_json
from workers.providers.base import CredentialsRejected, OutcomeUnknown, ProviderError, Throttled, Unreachable
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

HOLD_SECONDS = 15.0
"""A job whose process died is taken over after so long; a running one is renewed."""

_IDLE_LOOKS_AN_INTERVAL = 4
_IDLE_LOOK = (0.1, 1.0)
_FAILED_AGAIN = (5.0, 30.0)
"""After a failure: soon, and later the longer it has failed, but never so late that a cloud that is back is not seen."""
_FAILED_SHARE = 0.25
LANES = 2
"""Jobs of one account that a runner's threads do at a time: a cloud that hangs never holds up the others."""
_OUTAGE_PAUSE = 0.5
_FIRST_CYCLES = 20

Run = Callable[[Runtime, str, str], object]
Claimed = tuple[Row[Any], UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of job: what it does for an (account, region), and how often.

    `rest` times as long as it ran is the least pause after it: what shares a process with the work must leave room.
    `idle`: the interval (seconds) after a run that answered 0, nothing to do; who makes work for it hurries it.
    """

    name: str
    run: Run
    interval: Callable[[int], float]
    per_region: bool = True
    rest: float = 0.0
    idle: float | None = None


class PeriodicRunner:
    """Threads that take due jobs of some kinds, each one at a time, until the process stops.

    Only one of those without work looks for it: what looking costs does not grow with the threads.
    """

    def __init__(self, runtime: Runtime, kinds: Mapping[str, Kind]) -> None:
        self._runtime = runtime
        self._kinds = dict(kinds)
        self._looking = threading.Lock()
        self._claiming = threading.Lock()
        self._under_way: Counter[str | None] = Counter()
        shortest, longest = _IDLE_LOOK
        interval = min(kind.interval(0) for kind in kinds.values())
        self._idle = min(longest, max(shortest, interval / _IDLE_LOOKS_AN_INTERVAL))

    def start(self, name: str) -> threading.Thread:
        """Starts the thread; it ends soon after `runtime.stopping` is set."""
        thread = threading.Thread(target=self.loop, name=name, daemon=True)
        thread.start()
        return thread

    def loop(self) -> None:
        """Outermost: nothing that a job raises ends the loop."""
        while not self._runtime.stopping.is_set():
            try:
                claimed = self._wait()
                if claimed is not None:
                    self._do(*claimed)
            except DBAPIError as error:
                log.warning("database away", error=str(error.orig))
                self._runtime.stopping.wait(_OUTAGE_PAUSE)

    def run_one(self) -> bool:
        """Takes and runs the job that is due longest. False: none is due."""
        claimed = self._claim()
        if claimed is not None:
            self._do(*claimed)
        return claimed is not None

    def _wait(self) -> Claimed | None:
        """The next job that is due; None when the process stops."""
        with self._looking:
            while not self._runtime.stopping.is_set():
                claimed = self._claim()
                if claimed is not None:
                    return claimed
                self._runtime.stopping.wait(self._idle)
        return None

    def _claim(self) -> Claimed | None:
        """A due job of an account that has a lane free, with the claim on it."""
        claim_id = uuid4()
        with self._claiming:
            full = [account for account, count in self._under_way.items() if account is not None and count >= LANES]
            statement = jobs.claim_due(self._kinds, claim_id, HOLD_SECONDS, not_at=full)
            job = self._runtime.database.first(statement)
            if job is None:
                return None
            self._under_way[job.account] += 1
        return job, claim_id

    def _do(self, job: Row[Any], claim_id: UUID) -> None:
        try:
            self._run_to_end(job, claim_id)
        finally:
            with self._claiming:
                self._under_way[job.account] -= 1

    def _run_to_end(self, job: Row[Any], claim_id: UUID) -> None:
        kind = self._kinds[job.kind]
        started = time.monotonic()
        with self._runtime.renewals.renewing(lambda: jobs.extend(job.name, claim_id, HOLD_SECONDS)):
            result, error = self._run(kind, job)
        again = kind.interval(job.runs) if error is None else _again_after_failure(kind.interval(job.runs), job)
        if result == 0 and kind.idle is not None:
            again = kind.idle
        again = max(again, (1 + kind.rest) * (time.monotonic() - started))
        self._runtime.database.run(jobs.done(job.name, claim_id, again_in=again, error=error))

    def _run(self, kind: Kind, job: Row[Any]) -> tuple[object, str | None]:
        """What the job answered, and what went wrong."""
        started = time.monotonic()
        try:
            result = kind.run(self._runtime, job.account, job.region)
        except ProviderError as error:
            return None, self._provider_failed(job, error)
        except DBAPIError:
            raise
        except Exception:
            log.exception("job failed", job=job.name)
            return None, "internal error, see the log"
        log.debug("job done", job=job.name, result=result, seconds=round(time.monotonic() - started, 3))
        return result, None

    def _provider_failed(self, job: Row[Any], error: ProviderError) -> str:
        log.warning("job failed", job=job.name, code=error.code, error=error.message)
        runtime = self._runtime
        if isinstance(error, Throttled):
            provider = runtime.accounts.provider(job.account)
            runtime.pacer.throttled(provider, runtime.pacer.bucket(job.account, job.region, "read"), error)
        if isinstance(error, CredentialsRejected):
            runtime.accounts.set_aside(job.account, error)
        silent = isinstance(error, (OutcomeUnknown, Unreachable))
        runtime.database.run(fleet.region_failed(job.account, job.region, error_json(error), silent=silent))
        return f"{error.kind}: {error.code or ''} {error.message}"


def _again_after_failure(interval: float, job: Row[Any]) -> float:
    soon, late = _FAILED_AGAIN
    return max(min(interval, soon), min(late, float(job.failing_for or 0.0) * _FAILED_SHARE))


def ensure_jobs(runtime: Runtime, kinds: Mapping[str, Kind]) -> None:
    """Makes the rows of these kinds for every account and region in use, and drops those of places that left."""
    rows: list[dict[str, str | None]] = []
    for kind in kinds.values():
        if kind.per_region:
            rows += [
                {"name": f"{kind.name}/{account}/{region}", "kind": kind.name, "account": account, "region": region}
                for account, region in runtime.accounts.places()
            ]
        else:
            rows.append({"name": kind.name, "kind": kind.name, "account": None, "region": None})
    with runtime.database.begin() as connection:
        if rows:
            connection.execute(jobs.ensure(rows))
        connection.execute(jobs.keep_only(kinds, [str(row["name"]) for row in rows]))


def first_often(first: float, then: float) -> Callable[[int], float]:
    """The interval of observation: short for the first twenty cycles after a start, then the normal one."""
    return lambda runs: min(first, then) if runs <= _FIRST_CYCLES else then
