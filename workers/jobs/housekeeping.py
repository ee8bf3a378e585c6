"""Work that belongs to no lease: numbering events, recounting, forgetting what is past its time."""

from typing import Any

import structlog
from sqlalchemy import Executable, Row

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.events import events
from app.db.fleet import jobs
from app.db.operations import invariants, invoices, purge, reconciliation
from app.db.tenancy import audit
from workers.jobs.parts import apart
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

EVENTS = 2000
_ROW_BATCHES = 200
"""How often a statement is repeated in one run: for more rows of a table than two tenants can make in an hour."""
_LEASES, _LEASE_BATCHES = 500, 40
"""Ended leases that are deleted at once, and how often in one run: more than three tenants can make in an hour."""


def number_events(runtime: Runtime) -> int:
    """Numbers at most EVENTS committed events in one order for all readers; one process at a time. Answers how many."""
    if runtime.database.first(events.ANY_UNNUMBERED) is None:
        return 0
    with runtime.database.begin() as connection:
        base = connection.execute(*events.LOCK_COUNTER).scalar()
        if base is None:
            runtime.metrics.sequencer_skipped()
            return 0
        count: int = connection.execute(*events.number_new(base, EVENTS)).rowcount
        connection.execute(*events.move_counter(count))
    return count


def recount(runtime: Runtime) -> int:
    """Checks the invariants that the database must always keep. Answers how many violations there are.

    A broken one is an error in the log each time; that it broke, or holds again, is an entry of the audit trail.
    """
    with runtime.database.begin() as connection:
        violations = invariants.check(connection)
        for changed in connection.execute(invariants.note(violations)).all():
            connection.execute(audit.append(_alarm(changed)))
    for name, rows in violations.items():
        if rows:
            log.error("invariant broken", invariant=name, violations=len(rows), examples=invariants.examples(rows))
    return sum(map(len, violations.values()))


def _alarm(changed: Row[Any]) -> dict[str, Any]:
    return {
        "id": new_id("audit"),
        "principal": "system",
        "role": "system",
        "action": "invariant.broken" if changed.violations else "invariant.holds",
        "target": changed.name,
        "after": {"violations": changed.violations, "examples": changed.examples},
    }


def recount_charges(runtime: Runtime) -> int:
    """Counts unlisted charges anew in each month that has some, and returns the number of months.

    A charge finds its lease without another import: when its hour is closed, or when its VM is adopted.
    """
    months = runtime.database.all(invoices.UNLISTED_MONTHS)
    for row in months:
        with runtime.database.begin() as connection:
            connection.execute(invoices.LOCK)
            connection.execute(*reconciliation.count_unlisted(row.month))
    return len(months)


def forget_old(runtime: Runtime) -> int:
    """Deletes idempotency records, events, heartbeats and ended leases past their time. Answers how many.

    Each statement deletes a bounded number of rows in a transaction of its own. One that PostgreSQL refuses ends its own part.
    """
    rollups = purge.gpu_rollups(days=runtime.settings.metrics_days)
    statements = (*purge.STATEMENTS, jobs.forget_dead_workers(), rollups)
    count = sum(_forget(runtime, statement, most=purge.MOST, batches=_ROW_BATCHES) for statement in statements)
    leases = purge.leases(days=runtime.settings.lease_retention_days, limit=_LEASES)
    return count + _forget(runtime, leases, most=_LEASES, batches=_LEASE_BATCHES)


def _forget(runtime: Runtime, statement: Executable | Bound[Any], *, most: int, batches: int) -> int:
    """Repeats the statement while it deletes `most` rows. What is left after so many `batches` comes with the next run."""
    count = 0
    with apart(runtime, "purge"):
        for _ in range(batches):
            deleted = runtime.database.run(statement)
            count += deleted
            if deleted < most or runtime.stopping.is_set():
                break
    return count
