"""Stores usage records: closes hours that are over, corrects hours that are closed, and keeps the sums of both.

After down time it catches up, an hour in each transaction.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.db.usage import cost_rollup, record_progress, records, volume_records
from app.domain.usage import UsageStep
from workers.jobs.usage_messages import send_records
from workers.runtime.runtime import Runtime

_SETTLES = timedelta(minutes=2)
"""An hour is closed so long after its end: by then the VMs that ended in it are usually known."""
_LATE_COMMIT = timedelta(minutes=15)
"""Changes may carry a time that is so much earlier than their commit."""
_HOUR = UsageStep.HOUR.length
_BATCH = 500
"""Attempts that one statement corrects: each may have run for thousands of hours."""


def record_usage(runtime: Runtime, _account: str, _region: str) -> int:
    """Closes the hours that are over, then corrects earlier ones. Returns the number of records."""
    count = 0
    while not runtime.stopping.is_set():
        closed = _close_next(runtime)
        if closed is None:
            return count + _correct(runtime)
        count += closed
    return count


def _close_next(runtime: Runtime) -> int | None:
    """Closes one hour, and those after it in which nothing is billed. None: every hour that is over is closed."""
    with runtime.database.begin() as connection:
        progress = connection.execute(record_progress.LOCK).one()
        over = UsageStep.HOUR.floor(progress.now - _SETTLES)
        since = progress.recorded_until
        if since is None:
            since = UsageStep.HOUR.floor(connection.scalar(record_progress.FIRST_BILLING) or over)
        if since >= over:
            connection.execute(record_progress.move(since))
            return None
        until = since + _HOUR
        stored = [
            *connection.execute(*records.close(since, until, runtime.settings.sample_seconds)).all(),
            *connection.execute(*volume_records.close(since, until)).all(),
        ]
        if stored:
            _after(connection, stored)
        else:
            following = connection.scalar(record_progress.next_billing(until)) or over
            until = max(until, min(UsageStep.HOUR.floor(following), over))
        connection.execute(record_progress.move(until))
    return len(stored)


def _correct(runtime: Runtime) -> int:
    """Stores what changed in closed hours since the last look."""
    count = 0
    with runtime.database.begin() as connection:
        progress = connection.execute(record_progress.LOCK).one()
        looked: datetime | None = progress.recorded_corrections_until
        changed: list[str] = []
        if looked is not None:
            changed = sorted(
                row.id for row in connection.execute(record_progress.changed_attempts(looked - _LATE_COMMIT))
            )
        for start in range(0, len(changed), _BATCH):
            some = changed[start : start + _BATCH]
            first = connection.scalar(record_progress.first_billing(some))
            if first is None or first >= progress.recorded_until:
                continue
            since = UsageStep.HOUR.floor(first)
            stored = connection.execute(*records.correct(some, since, progress.recorded_until)).all()
            _after(connection, stored)
            count += len(stored)
        connection.execute(record_progress.corrections_done(progress.now))
    return count


def _after(connection: Connection, stored: Iterable[Row[Any]]) -> None:
    """The sums and messages of new records, in the transaction that stores them."""
    hours = {(row.tenant_id, row.starts_at) for row in stored}
    if not hours:
        return
    days = {(tenant, UsageStep.DAY.floor(starts_at)) for tenant, starts_at in hours}
    for step, steps in ((UsageStep.HOUR, hours), (UsageStep.DAY, days)):
        for statement in cost_rollup.make_anew(step, steps):
            connection.execute(*statement)
    send_records(connection, hours)
