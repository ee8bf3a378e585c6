"""Being late: a thread waits until its claim is somebody else's, and that one has finished. Then its answer arrives."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog
from psycopg.rows import namedtuple_row

_POLL_SECONDS = 0.05
_AS_A_WORKER = "-c role=gpulease_worker"

_LEASE = "SELECT claim_id, ended_at IS NOT NULL AS over FROM lease WHERE id = %s"
# The claim of a job is renewed by another thread of its process, so it never runs out while one thread stalls: it is taken.
_TAKE_JOB = """
UPDATE periodic_job SET claim_id = gen_random_uuid(), held_until = now() - interval '1 second', next_due = now()
WHERE name = %s RETURNING runs
"""
_JOB = "SELECT runs, claim_id FROM periodic_job WHERE name = %s"


def wait_for_another(database_url: str, key: str, seconds: float, *, over: bool) -> bool:
    """Waits for at most `seconds`, for a lease that this thread moves, else for the job that it does.

    `key`: that of the point. With several leases in the thread, it names the lease. Another worker has claimed it and let
    it rest again; with `over`, the lease has ended. False: that did not happen.
    """
    bound = structlog.contextvars.get_contextvars()
    lease_id, job = bound.get("lease_id") or (key if key in bound.get("lease_ids", ()) else None), bound.get("job")
    with psycopg.connect(database_url, autocommit=True, options=_AS_A_WORKER, row_factory=namedtuple_row) as connection:
        if lease_id is not None:
            return wait_for(_lease_moved(connection, str(lease_id), over=over), seconds)
        return job is not None and wait_for(_job_done(connection, str(job)), seconds)


def _lease_moved(connection: psycopg.Connection[Any], lease_id: str, *, over: bool) -> Callable[[], bool]:
    before = connection.execute(_LEASE, [lease_id]).fetchone()
    mine = None if before is None else before.claim_id

    def moved() -> bool:
        row = connection.execute(_LEASE, [lease_id]).fetchone()
        if row is None or row.over:
            return True
        return not over and row.claim_id is None and mine is not None

    return moved if mine is not None or over else lambda: True


def _job_done(connection: psycopg.Connection[Any], name: str) -> Callable[[], bool]:
    taken = connection.execute(_TAKE_JOB, [name]).fetchone()

    def done() -> bool:
        row = connection.execute(_JOB, [name]).fetchone()
        return row is None or taken is None or (row.runs > taken.runs and row.claim_id is None)

    return done


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition holds within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(_POLL_SECONDS)
    return True
