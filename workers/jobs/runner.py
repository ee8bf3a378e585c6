"""Runs periodic jobs: any process may run any job, the database remembers when each is due."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from app.db.fleet import accounts, jobs
from app.domain.brakes import BrakeName
from workers.providers.errors import OutcomeUnknown, ProviderError, Throttled, Unreachable
from workers.runtime.accounts import error_json
from workers.runtime.brakes import check_cluster, log_brake
from workers.runtime.database import failure_name, is_outage
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

HOLD_SECONDS = 8.0
"""A job whose process died is taken over after so long; a running one is renewed."""

_LOOK_AGAIN = (0.05, 1.0)
"""Seconds, at least and at most, from a look that found no due job to the next one."""
_FAILED_AGAIN = (5.0, 30.0)
"""After a failure: soon, and later the longer it has failed, but never so late that a cloud that is back is not seen."""
_FAILED_SHARE = 0.25
LANES = 2
"""Jobs of one account that a runner's threads do at a time: a cloud that hangs never holds up the others."""
_FIRST_CYCLES = 20

T = TypeVar("T")
Run = Callable[[Runtime, str, str], object]
Together = Callable[[Runtime, str, frozenset[str]], Sequence[Callable[[str], object]]]
"""What regions have in common, done once. Answers the steps that are left to do for each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A kind of job: what it does for an (account, region), and how often.

    `per_account`: one job for each account, whatever its regions.
    `together`: takes the place of `run` at accounts whose adapter lists all regions at once; the account has one job then.
    `rest` times as long as it ran is the least pause after it: what shares a process with the work must leave room.
    `idle`: the interval (seconds) after a run that answered 0, nothing to do; who makes work for it hurries it.
    """

    name: str
    run: Run
    interval: Callable[[int], float]
    per_region: bool = True
    per_account: bool = False
    together: Together | None = None
    rest: float = 0.0
    idle: float | None = None

    @property
    def longest(self) -> float:
        """The longest of its intervals, in seconds."""
        return max(self.interval(_FIRST_CYCLES + 1), self.idle or 0.0)


class PeriodicRunner:
    """Threads that take due jobs of some kinds, each one at a time, until the process stops.

    Only one of those without work looks for it: what looking costs does not grow with the threads.
    """

    def __init__(self, runtime: Runtime, kinds: Mapping[str, JobSpec]) -> None:
        self._runtime = runtime
        self._kinds = dict(kinds)
        self._names = frozenset(kinds)
        self._looking = threading.Lock()
        self._claiming = threading.Lock()
        self._under_way: Counter[str | None] = Counter()
        self._silences: dict[tuple[str, str], str] = {}
        """The beginning of the last silence of an account and region that was logged."""
        # a job that others hurry meanwhile waits for its interval at most
        self._longest = min(_LOOK_AGAIN[1], *(kind.interval(0) for kind in kinds.values()))

    def start(self, name: str) -> threading.Thread:
        """Starts a thread; it ends soon after `runtime.stopping` is set."""
        return self.loop(name).start()

    def loop(self, name: str) -> Loop:
        """One job after the other. A look for jobs waits by itself."""
        return Loop(name, self._run_next, stopping=self._runtime.stopping)

    def _run_next(self) -> None:
        claimed = self._wait()
        if claimed is not None:
            self._do(claimed)

    def run_one(self) -> bool:
        """Takes and runs the job that is due longest. False: none is due."""
        claimed = self._claim()
        if claimed.name is not None:
            self._do(claimed)
        return claimed.name is not None

    def _wait(self) -> Row[Any] | None:
        """The next job that is due; None when the process stops."""
        with self._looking:
            while not self._runtime.stopping.is_set():
                claimed = self._claim()
                if claimed.name is not None:
                    return claimed
                soonest = self._longest if claimed.soonest is None else float(claimed.soonest)
                self._runtime.stopping.wait(max(_LOOK_AGAIN[0], min(self._longest, soonest)))
        return None

    def _claim(self) -> Row[Any]:
        """A due job of an account that has a lane free, claimed; or without a name, and when to look again."""
        with self._claiming:
            under_way = self._under_way.items()
            full = frozenset(account for account, count in under_way if account is not None and count >= LANES)
            (job,) = self._runtime.database.all(
                jobs.claim_due(self._names, HOLD_SECONDS, self._runtime.liveness.number, not_at=full)
            )
            if job.name is not None:
                self._under_way[job.account] += 1
        return job

    def _do(self, job: Row[Any]) -> None:
        """Runs a claimed job. It observes the clouds under a hold too.

        In a database that is not the known one, it first sets the hold. Where the database does not store the job's end,
        another process takes the job when the claim expires.
        """
        try:
            if not job.cluster_is_known:
                check_cluster(self._runtime.database)
            self._run_to_end(job)
        except DBAPIError as error:
            log.warning(failure_name(error), job=job.name, error=_first_line(error))
            self._count_failure(job, error)
        finally:
            with self._claiming:
                self._under_way[job.account] -= 1

    def _run_to_end(self, job: Row[Any]) -> None:
        kind = self._kinds[job.kind]
        started = self._runtime.monotonic()
        with (
            structlog.contextvars.bound_contextvars(job=job.name),
            self._runtime.traces.span(job.kind, gpulease__account=job.account, gpulease__region=job.region),
            self._runtime.claim_renewer.renewing(lambda: jobs.extend(job.name, job.claim_id, HOLD_SECONDS)),
        ):
            try:
                result, error = self._run(kind, job)
            finally:
                self._runtime.metrics.job_done(job.kind, self._runtime.monotonic() - started)
        again = kind.interval(job.runs) if error is None else _again_after_failure(kind.interval(job.runs), job)
        if result == 0 and kind.idle is not None:
            again = kind.idle
        again = max(again, (1 + kind.rest) * (self._runtime.monotonic() - started))
        self._runtime.database.run(jobs.done(job.name, job.claim_id, again_in=again, error=error))

    def _run(self, kind: JobSpec, job: Row[Any]) -> tuple[object, str | None]:
        """What the job answered, and what went wrong."""
        if kind.together is not None and job.region is None:
            return None, self._run_together(kind.together, job)
        return self._guard(job, [job.region], lambda: kind.run(self._runtime, job.account, job.region))

    def _run_together(self, together: Together, job: Row[Any]) -> str | None:
        """What went wrong. What all regions have in common fails for all of them, a step for its region alone."""
        regions = self._runtime.accounts.regions(job.account)
        if not regions:
            return None
        steps, error = self._guard(job, regions, lambda: together(self._runtime, job.account, frozenset(regions)))
        errors: dict[str, str] = {}
        for step in steps or ():
            for region in [name for name in regions if name not in errors]:
                problem = self._guard(job, [region], partial(step, region))[1]
                if problem is not None:
                    errors[region] = problem
        return error or "; ".join(f"{region}: {problem}" for region, problem in errors.items()) or None

    def _guard(self, job: Row[Any], regions: Sequence[str], run: Callable[[], T]) -> tuple[T | None, str | None]:
        """What it answered, and what went wrong, which is written down at these regions.

        Raises DBAPIError when the database is unavailable.
        """
        started = self._runtime.monotonic()
        try:
            result = run()
        except ProviderError as error:
            return None, self._provider_failed(job, regions, error)
        except DBAPIError as error:
            if is_outage(error):
                raise
            log.exception("statement failed", job=job.name, regions=regions)
            self._count_failure(job, error)
            return None, "statement failed, see the log"
        except Exception as error:
            log.exception("job failed", job=job.name, regions=regions)
            self._count_failure(job, error)
            return None, "internal error, see the log"
        log.debug("job done", job=job.name, result=result, seconds=round(self._runtime.monotonic() - started, 3))
        return result, None

    def _provider_failed(self, job: Row[Any], regions: Sequence[str], error: ProviderError) -> str:
        log.warning("job failed", job=job.name, regions=regions, code=error.code, error=error.message)
        runtime = self._runtime
        self._count_failure(job, error)
        error = runtime.accounts.verdict(job.account, error)
        silent = isinstance(error, (OutcomeUnknown, Unreachable))
        for region in regions:
            if isinstance(error, Throttled):
                provider = runtime.accounts.provider(job.account)
                runtime.rate_limiter.throttled(
                    provider, runtime.rate_limiter.bucket(job.account, region, "read"), error
                )
            row = runtime.database.first(accounts.region_failed(job.account, region, error_json(error), silent=silent))
            if row is not None and row.is_silent and self._silences.get((job.account, region)) != row.since:
                self._silences[job.account, region] = row.since
                log_brake(BrakeName.SILENCE, account=job.account, region=region, since=row.since, code=error.code)
        return f"{error.kind}: {error.code or ''} {error.message}"

    def _count_failure(self, job: Row[Any], error: Exception) -> None:
        self._runtime.metrics.job_failed(job.kind, job.account, type(error).__name__)


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).partition("\n")[0]


def _again_after_failure(interval: float, job: Row[Any]) -> float:
    soon, late = _FAILED_AGAIN
    return max(min(interval, soon), min(late, float(job.failing_for or 0.0) * _FAILED_SHARE))


def ensure_jobs(runtime: Runtime, kinds: Mapping[str, JobSpec]) -> Sequence[tuple[str, str]]:
    """Makes the rows of these kinds for every account and region in use, and drops those of places that left.

    Returns the (account, region) pairs in use.
    """
    places = runtime.accounts.places()
    rows = {name: row for kind in kinds.values() for name, row in _rows(runtime, kind, places)}
    with runtime.database.begin() as connection:
        connection.execute(*jobs.ensure(rows.values()))
        connection.execute(*jobs.keep_only(kinds, rows))
    return places


def _rows(runtime: Runtime, kind: JobSpec, places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A kind's jobs by name: those of an account that lists all regions at once are one and the same."""
    job_places: Iterable[tuple[str | None, str | None]] = [(None, None)]
    if kind.per_account:
        job_places = dict.fromkeys((account, None) for account, _ in places)
    elif kind.per_region:
        job_places = ((account, _region(runtime, kind, account, region)) for account, region in places)
    for account, region in job_places:
        name = "/".join(part for part in (kind.name, account, region) if part is not None)
        about = {"account": account, "region": region, "interval_seconds": kind.longest}
        yield name, {"name": name, "kind": kind.name, **about}


def _region(runtime: Runtime, kind: JobSpec, account: str, region: str) -> str | None:
    """The region of its job; None where one job does all of the account's."""
    together = kind.together is not None and runtime.accounts.provider(account).lists_all_regions
    return None if together else region


def first_often(first: float, then: float) -> Callable[[int], float]:
    """The interval of observation: short for the first twenty cycles after a start, then the normal one."""
    return lambda runs: min(first, then) if runs <= _FIRST_CYCLES else then
