"""Sums up use and cost of finished hours and days. After down time it catches up, a day in each transaction."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.db.usage import rollup
from app.domain.usage import UsagePeriod, UsageStep
from workers.runtime.runtime import Runtime

_AGAIN = timedelta(hours=2)
"""The newest hours are always summed up again: a transaction may commit a while after its time."""
_LATE_COMMIT = timedelta(minutes=15)
"""Corrections may carry a time that is so much earlier than their commit."""
_BATCH = timedelta(days=1)


def roll_up_usage(runtime: Runtime, _account: str, _region: str) -> int:
    """Sums up the hours that are over and not summed up, and those with corrections. Returns the number of hours."""
    with runtime.database.begin() as connection:
        progress = connection.execute(rollup.LOCK_PROGRESS).one()
        start = _start(connection, progress, runtime.settings.lease_retention_days)
    until = UsageStep.HOUR.floor(progress.now)
    count = 0
    while start < until and not runtime.stopping.is_set():
        end = min(UsageStep.DAY.floor(start) + _BATCH, until)
        _roll_up(runtime, start, end)
        count += (end - start) // UsageStep.HOUR.length
        start = end
    if start >= until:
        runtime.database.run(rollup.move_progress(until))
        runtime.database.run(rollup.corrections_done(progress.now))
    return count


def _start(connection: Connection, progress: Any, retention_days: int) -> datetime:
    """The first hour to sum up. Hours whose leases may be deleted already are never summed up again."""
    if progress.rolled_until is None:
        first_use = connection.execute(rollup.FIRST_USE).scalar()
        return UsageStep.HOUR.floor(first_use or progress.now)
    rolled_until: datetime = progress.rolled_until
    start = rolled_until - _AGAIN
    if progress.checked_until is not None:
        corrected = connection.scalar(rollup.first_correction(progress.checked_until - _LATE_COMMIT))
        start = min(start, corrected or start)
    oldest = UsageStep.DAY.ceil(progress.now - timedelta(days=retention_days))
    return min(UsageStep.HOUR.floor(max(start, oldest)), rolled_until)


def _roll_up(runtime: Runtime, since: datetime, until: datetime) -> None:
    """Hours of one day, and that day as far as it is over."""
    day = UsageStep.DAY.floor(since)
    hours = UsagePeriod(step=UsageStep.HOUR, since=since, until=until)
    whole = UsagePeriod(step=UsageStep.DAY, since=day, until=day + UsageStep.DAY.length)
    with runtime.database.begin() as connection:
        connection.execute(rollup.LOCK_PROGRESS)
        for period in (hours, whole) if until == whole.until else (hours,):
            connection.execute(rollup.delete_sums(period))
            connection.execute(*rollup.insert_sums(period))
        connection.execute(rollup.move_progress(until))
