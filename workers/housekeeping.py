"""Work that belongs to no lease: numbering events, recounting, forgetting what is past its time."""

import structlog

from app.db import events, invariants, jobs, purge
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_BATCH = 2000


def number_events(runtime: Runtime) -> int:
    """Numbers committed events in one order for all readers; one process at a time. Answers how many."""
    if runtime.database.first(events.any_unnumbered()) is None:
        return 0
    with runtime.database.begin() as connection:
        base = connection.execute(events.lock_counter()).scalar()
        if base is None:
            return 0
        count: int = connection.execute(events.number_new(base, _BATCH)).rowcount
        connection.execute(events.move_counter(count))
    return count


def recount(runtime: Runtime) -> int:
    """Checks the invariants that the database must always keep; each violation is an alarm in the log."""
    broken = 0
    with runtime.database.begin() as connection:
        for check in invariants.CHECKS:
            for row in connection.execute(check.statement).mappings():
                broken += 1
                log.error("invariant broken", invariant=check.name, row=dict(row))
    return broken


def forget_old(runtime: Runtime) -> int:
    """Deletes idempotency records, events and heartbeats past their time. Answers how many rows."""
    with runtime.database.begin() as connection:
        statements = (*purge.STATEMENTS, jobs.forget_dead_workers())
        return sum(connection.execute(statement).rowcount for statement in statements)
