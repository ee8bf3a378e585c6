"""Samples of GPUs: their partitions, and the sums of hours that are over.

An hour is summed up when no sample of it can arrive any more. After down time the job catches up, a few hundred leases
in each transaction. A lease whose samples cannot be summed up is left out of that hour, and delays no other lease.
"""

from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import DBAPIError, OperationalError

from app.db.gpus import rollup
from app.domain.gpus.samples import OLDEST
from app.domain.usage import UsageStep
from workers.runtime.database import is_outage
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_SETTLES = OLDEST + timedelta(minutes=1)
"""An agent keeps samples that it could not send; the last ones of an hour are accepted so long after its end."""
_HOUR = UsageStep.HOUR.length
_BATCH = 250
"""Leases that one statement sums up."""


def keep_partitions(runtime: Runtime, _account: str, _region: str) -> int:
    """Makes the partitions of the next days and drops those past their time. Returns the number of both.

    A reader that holds a partition delays its end until the next run.
    """
    try:
        with runtime.database.begin() as connection:
            days = {"keep_days": runtime.settings.raw_sample_days}
            return int(connection.execute(rollup.MAINTAIN_PARTITIONS, days).scalar_one())
    except OperationalError as error:
        log.warning("partitions of samples are in use", error=str(error.orig).partition("\n")[0])
        return 0


def roll_up_samples(runtime: Runtime, _account: str, _region: str) -> int:
    """Sums up the hours that are over. Returns the number of sums."""
    count = 0
    while not runtime.stopping.is_set():
        summed = _next_hour(runtime)
        if summed is None:
            break
        count += summed
    return count


def _next_hour(runtime: Runtime) -> int | None:
    """None: every hour that is over is summed up."""
    progress = runtime.database.first(rollup.PROGRESS)
    assert progress is not None
    over = UsageStep.HOUR.floor(progress.now - _SETTLES)
    since = progress.samples_rolled_until or _first(runtime, over)
    if since >= over:
        runtime.database.run(rollup.move(since))
        return None
    since = max(since, over - timedelta(days=runtime.settings.raw_sample_days))
    rows = runtime.database.all(rollup.reporting(since))
    sound = [row.lease_id for row in rows if not row.has_failed]
    batches = [sound[start : start + _BATCH] for start in range(0, len(sound), _BATCH)]
    batches = [[row.lease_id] for row in rows if row.has_failed] + batches
    count = 0
    while batches:
        if runtime.stopping.is_set():
            return None
        leases = batches.pop()
        try:
            count += _close(runtime, leases, since)
        except DBAPIError as error:
            if is_outage(error):
                raise
            if len(leases) == 1:
                _leave_out(runtime, leases[0], since, error)
            else:
                half = len(leases) // 2
                batches += [leases[:half], leases[half:]]
    runtime.database.run(rollup.move(since + _HOUR if rows else over))
    return count


def _close(runtime: Runtime, leases: list[str], since: datetime) -> int:
    with runtime.database.begin() as connection:
        connection.execute(rollup.SHORT)
        return connection.execute(*rollup.close(leases, since, since + _HOUR)).rowcount


def _leave_out(runtime: Runtime, lease_id: str, since: datetime, error: DBAPIError) -> None:
    """`gpulease ops summary` lists the lease."""
    message = str(error.orig).partition("\n")[0]
    log.warning("samples not summed up", lease_id=lease_id, hour=since.isoformat(), error=message)
    runtime.metrics.job_failed("gpu_samples", None, type(error).__name__)
    runtime.database.run(rollup.leave_out(lease_id, since, message))


def _first(runtime: Runtime, over: datetime) -> datetime:
    row = runtime.database.first(rollup.FIRST)
    first: datetime | None = None if row is None else row.min
    return over if first is None else min(UsageStep.HOUR.floor(first), over)
