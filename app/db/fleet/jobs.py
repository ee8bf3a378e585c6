"""Periodic jobs. The schedule is a row's `next_due`, so no single process has to remember it."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Delete,
    Executable,
    Interval,
    Text,
    TextClause,
    Update,
    all_,
    any_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.sql.dml import ReturningUpdate

from app.db.core.prepared import Bound
from app.db.leases.process_locks import claim_ids
from app.db.schema import cluster
from app.db.schema.tables import periodic_job, worker_heartbeat

_HEARTBEAT_KEPT = timedelta(days=1)
DEADMAN = "deadman"
"""Name and kind of the heartbeat of `gpulease deadman`, which is no process of this installation."""


ALIVE_FOR = timedelta(seconds=15)
"""A process without a heartbeat for this long counts as ended. A process sends one every two seconds."""
MISSING_AFTER = timedelta(minutes=1)
"""When no process of a kind has sent a heartbeat for this long, gpulease notifies the operators."""

_COLUMNS = ("name", "kind", "account", "region", "interval_seconds")
_ENSURE = text(
    """
    INSERT INTO periodic_job (name, kind, account, region, interval_seconds)
    SELECT * FROM unnest(CAST(:name AS text[]), CAST(:kind AS text[]), CAST(:account AS text[]), CAST(:region AS text[]),
        CAST(:interval_seconds AS float8[]))
    ON CONFLICT DO NOTHING
    """
)


def ensure(rows: Iterable[Mapping[str, Any]]) -> Bound[TextClause]:
    """Inserts the rows (name, kind, account, region, interval_seconds) that are missing."""
    jobs = list(rows)
    return Bound(_ENSURE, {column: [row[column] for row in jobs] for column in _COLUMNS})


_KEEP_ONLY = delete(periodic_job).where(
    periodic_job.c.kind == any_(bindparam("kinds", type_=ARRAY(Text))),
    periodic_job.c.name != all_(bindparam("names", type_=ARRAY(Text))),
)


def keep_only(kinds: Iterable[str], names: Iterable[str]) -> Bound[Delete]:
    """Deletes jobs of these kinds that are not among `names`."""
    return Bound(_KEEP_ONLY, {"kinds": list(kinds), "names": list(names)})


def claim_due(
    kinds: frozenset[str], hold_seconds: float, number: int | None = None, *, not_at: frozenset[str] = frozenset()
) -> Bound[Executable]:
    """Claims, for process `number`, the job of these kinds that has been due longest, except in the accounts `not_at`.

    Returns one row (name, kind, account, region, claim_id, runs, failing_for, cluster_is_known, soonest). `failing_for`:
    seconds since the job last succeeded, None if it never did. `soonest`: seconds until the first of these jobs is due,
    None if there is none. `name` is None when no job is due.
    """
    parameters = {"hold": timedelta(seconds=hold_seconds), "kinds": sorted(kinds), "not_at": sorted(not_at)}
    return Bound(_claim_due(number), parameters)


_FREE = (
    periodic_job.c.kind == func.any(bindparam("kinds", type_=ARRAY(Text))),
    or_(periodic_job.c.held_until.is_(None), periodic_job.c.held_until < func.now()),
    or_(
        periodic_job.c.account.is_(None),
        periodic_job.c.account != func.all(bindparam("not_at", type_=ARRAY(Text))),
    ),
)


@lru_cache(maxsize=16)
def _claim_due(number: int | None) -> Executable:
    taken = _taken(number).cte("taken")
    soonest = select(func.extract("epoch", func.min(periodic_job.c.next_due) - func.now())).where(*_FREE)
    asked = select(soonest.scalar_subquery().label("soonest")).cte("asked")
    return select(taken, asked.c.soonest).select_from(asked.outerjoin(taken, true()))


def _taken(number: int | None) -> ReturningUpdate[*tuple[Any, ...]]:
    due = (
        select(periodic_job.c.name)
        .where(*_FREE, periodic_job.c.next_due <= func.now())
        .order_by(periodic_job.c.next_due)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    return (
        update(periodic_job)
        .where(periodic_job.c.name == due)
        .values(
            claim_id=claim_ids(number),
            held_until=func.now() + bindparam("hold", type_=Interval),
            last_started_at=func.now(),
            runs=periodic_job.c.runs + 1,
        )
        .returning(
            periodic_job.c.name,
            periodic_job.c.kind,
            periodic_job.c.account,
            periodic_job.c.region,
            periodic_job.c.claim_id,
            periodic_job.c.runs,
            func.extract("epoch", func.now() - periodic_job.c.last_ok_at).label("failing_for"),
            cluster.is_known().label("cluster_is_known"),
        )
    )


def extend(name: str, claim_id: UUID, hold_seconds: float) -> Update:
    """Renews the claim on a long job. Returns no row when the claim is no longer ours."""
    return (
        update(periodic_job)
        .where(periodic_job.c.name == name, periodic_job.c.claim_id == claim_id)
        .values(held_until=func.now() + timedelta(seconds=hold_seconds))
        .returning(periodic_job.c.name)
    )


def done(name: str, claim_id: UUID, *, again_in: float, error: str | None) -> Bound[Update]:
    """Releases the job. `again_in` (seconds) counts from the start of the run, so that the period is the interval.

    A job that was hurried during its run keeps the hurried time. The run may have read its data before the change that
    the hurry was for.
    """
    parameters = {"job": name, "claim": claim_id, "again_in": timedelta(seconds=again_in), "error": error}
    if error is None:
        return Bound(_SUCCEEDED, parameters)
    return Bound(_DONE, parameters)


_DONE = (
    update(periodic_job)
    .where(
        periodic_job.c.name == bindparam("job", type_=Text),
        periodic_job.c.claim_id == bindparam("claim", type_=periodic_job.c.claim_id.type),
    )
    .values(
        claim_id=None,
        held_until=None,
        next_due=case(
            (
                periodic_job.c.next_due > periodic_job.c.last_started_at,
                func.greatest(func.now(), periodic_job.c.next_due),
            ),
            else_=func.greatest(func.now(), periodic_job.c.last_started_at + bindparam("again_in", type_=Interval)),
        ),
        last_error=bindparam("error", type_=Text),
    )
)
_SUCCEEDED = _DONE.values(
    last_ok_at=func.now(), interval_seconds=func.extract("epoch", bindparam("again_in", type_=Interval))
)


_HURRY = text(
    """
    UPDATE periodic_job j SET next_due = now() + :within
    WHERE j.kind = :kind AND (j.next_due > now() + :within OR j.next_due <= j.last_started_at)
      AND EXISTS (
        SELECT FROM unnest(CAST(:accounts AS text[]), CAST(:regions AS text[])) AS p (account, region)
        WHERE p.account = j.account AND (j.region IS NULL OR p.region = j.region))
    """
)


def hurry(kind: str, places: Iterable[tuple[str, str]], *, within: float = 0) -> Bound[TextClause]:
    """Makes the jobs of a kind due in at most `within` seconds for these (account, region) pairs.

    A job that is due by then anyway, or waits for its turn, stays unchanged.

    A job that covers all regions of an account (its `region` is null) matches any of them.
    """
    pairs = list(places)
    accounts, regions = [account for account, _ in pairs], [region for _, region in pairs]
    return Bound(_HURRY, {"kind": kind, "accounts": accounts, "regions": regions, "within": timedelta(seconds=within)})


_BEAT = (
    insert(worker_heartbeat)
    .values(name=bindparam("process", type_=Text), kind=bindparam("kind_of_process", type_=Text))
    .on_conflict_do_update(index_elements=[worker_heartbeat.c.name], set_={"seen_at": func.now()})
)
_BEAT_AT_HOST = _BEAT.values(host=bindparam("host_of_process", type_=Text))


def beat(name: str, kind: str) -> Bound[Insert]:
    """Records a heartbeat of what is no process of this installation."""
    return Bound(_BEAT, {"process": name, "kind_of_process": kind})


def beat_at(host: str, name: str, kind: str) -> Bound[Insert]:
    """Records a heartbeat of a process at a host."""
    return Bound(_BEAT_AT_HOST, {"process": name, "kind_of_process": kind, "host_of_process": host})


def forget_heartbeat(name: str) -> Delete:
    """Deletes the heartbeat of a process that stops. One that is killed leaves it, which shows a lost host."""
    return delete(worker_heartbeat).where(worker_heartbeat.c.name == name)


def forget_dead_workers() -> Delete:
    """Deletes heartbeats of processes that ended long ago.

    The single row of the dead-man switch stays: it shows since when the switch is silent.
    """
    return delete(worker_heartbeat).where(
        worker_heartbeat.c.seen_at < func.now() - _HEARTBEAT_KEPT, worker_heartbeat.c.kind != DEADMAN
    )
