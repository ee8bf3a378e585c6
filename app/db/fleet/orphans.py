"""Statements on orphans: VMs of this installation that no lease owns."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    Executable,
    Integer,
    Interval,
    Text,
    Update,
    all_,
    and_,
    any_,
    bindparam,
    exists,
    func,
    select,
    text,
    update,
)

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.schema import cluster
from app.db.schema.tables import installation, orphan

_STILL_LOST = "(o.cause = 'lost_row' AND excluded.cause = 'other_attempt' AND o.state IN ('seen', 'ending'))"
# A lease that the restored database had queued may have planned an attempt of the same number again. The VM that ran
# before must not be ended on account of that attempt.

_SIGHT = text(
    f"""
    INSERT INTO orphan AS o (id, account, region, instance_id, provider, zone, instance_type, market, cause, lease_id, attempt_n,
                             tags, price_per_hour, launched_at, deadline_at, end_after)
    VALUES (:id, :account, :region, :instance_id, (SELECT provider FROM account WHERE name = :account), :zone, :instance_type, :market, :cause, :lease_id, :attempt_n,
            CAST(:tags AS jsonb), :price_per_hour, :launched_at, :deadline_at,
            now() + CAST(:grace AS interval))
    ON CONFLICT (account, region, instance_id) DO UPDATE SET
        last_seen_at = now(), sightings = o.sightings + 1, lease_id = excluded.lease_id, attempt_n = excluded.attempt_n,
        tags = excluded.tags, deadline_at = excluded.deadline_at,
        cause = CASE WHEN {_STILL_LOST} THEN o.cause ELSE excluded.cause END,
        end_after = CASE WHEN {_STILL_LOST} THEN o.end_after
                         WHEN o.state IN ('gone', 'adopted') OR o.cause <> excluded.cause OR excluded.end_after < o.end_after
                         THEN excluded.end_after ELSE o.end_after END,
        state = CASE WHEN o.state IN ('gone', 'adopted') THEN 'seen' ELSE o.state END, gone_at = NULL
    RETURNING sightings
    """
)


def sight(values: dict[str, Any], *, grace_seconds: float | None) -> Bound[Executable]:
    """Records that an orphan was seen (again), with its current tags. Returns (sightings).

    Its termination is due `grace_seconds` after the first sighting with this cause. With None it is due at the
    deadline, or when an operator requests it.
    """
    return Bound(
        _SIGHT,
        {
            **values,
            "id": new_id("orphan"),
            "grace": None if grace_seconds is None else timedelta(seconds=grace_seconds),
        },
    )


_PROVEN = orphan.c.cause.in_(["ended_lease", "other_attempt"])
"""A row proves that no lease owns the VM any more."""
_HERE = (
    orphan.c.account == bindparam("here_account", type_=Text),
    orphan.c.region == bindparam("here_region", type_=Text),
)
_LOST_BEFORE = select(orphan.c.instance_id).where(
    *_HERE, orphan.c.instance_id == any_(bindparam("ids", type_=ARRAY(Text))), orphan.c.cause == "lost_row"
)


def lost_before(account: str, region: str, instance_ids: Sequence[str]) -> Bound[AnySelect]:
    """(instance_id) of those that were recorded before as VMs of a lost row."""
    return Bound(_LOST_BEFORE, {"here_account": account, "here_region": region, "ids": list(instance_ids)})


def _take_due() -> Update:
    open_ = (
        select(orphan.c.instance_id)
        .where(
            *_HERE,
            orphan.c.state.in_(["seen", "ending"]),
            exists().where(installation.c.hold.is_(None), cluster.IS_KNOWN),
            _PROVEN | and_(bindparam("rowless_too", type_=Boolean), orphan.c.sightings >= 2),
            (orphan.c.end_after <= func.now()) | (orphan.c.deadline_at <= func.now()),
            orphan.c.end_requested_at.is_(None)
            | (orphan.c.end_requested_at < func.now() - bindparam("again_after", type_=Interval)),
        )
        .order_by(orphan.c.end_requested_at.asc().nulls_first(), orphan.c.first_seen_at)
        .limit(bindparam("most", type_=Integer))
        .with_for_update(skip_locked=True)
        # a locking CTE runs once; a subquery may run for each row, and its limit then has no effect
        .cte("due")
    )
    return (
        update(orphan)
        .where(*_HERE, orphan.c.instance_id.in_(select(open_.c.instance_id)))
        .values(state="ending", end_requested_at=func.now())
        .returning(orphan.c.instance_id, orphan.c.cause, orphan.c.sightings)
    )


_DUE = _take_due()


def due(account: str, region: str, *, again_after: float, limit: int, rowless_too: bool) -> Bound[Update]:
    """Takes the orphans to end now: grace over or deadline passed, and proven by a row or seen at least twice.

    Takes none while the hold is on, or while the running PostgreSQL cluster is not the known one. An orphan that still
    exists is due again after `again_after` seconds. The orphan with the oldest request comes first, so orphans that
    refuse to end do not delay the others. Returns (instance_id, cause, sightings).
    """
    again = timedelta(seconds=again_after)
    here = {"here_account": account, "here_region": region}
    return Bound(_DUE, {**here, "again_after": again, "most": limit, "rowless_too": rowless_too})


_END_ASKED = text(
    """
    UPDATE orphan o SET end_error = e.error
    FROM unnest(CAST(:ids AS text[]), CAST(:errors AS jsonb[])) AS e (instance_id, error)
    WHERE o.account = :account AND o.region = :region AND o.instance_id = e.instance_id
    """
)


def end_asked(account: str, region: str, errors: Mapping[str, Mapping[str, Any] | None]) -> Bound[Executable]:
    """Records the results of termination requests for orphans.

    `errors`: {class, code, message} by instance id, None where the provider accepted the request.
    """
    encoded = [json.dumps(dict(error)) if error is not None else None for error in errors.values()]
    return Bound(_END_ASKED, {"account": account, "region": region, "ids": list(errors), "errors": encoded})


_GONE = ("id", "instance_id", "region", "zone", "cause", "lease_id", "first_seen_at", "end_requested_at")


_FOUND_GONE = (
    update(orphan)
    .where(
        *_HERE,
        orphan.c.state.in_(["seen", "ending"]),
        orphan.c.cause != "leftover",
        orphan.c.instance_id != all_(bindparam("still_alive", type_=ARRAY(Text))),
        orphan.c.zone != all_(bindparam("unreachable", type_=ARRAY(Text))),
    )
    .values(state="gone", gone_at=func.now())
    .returning(*(orphan.c[name] for name in _GONE))
)


def gone(account: str, region: str, still_alive: Sequence[str], unreachable: Collection[str]) -> Bound[Update]:
    """Orphans that a complete listing no longer shows alive. The listing does not cover `unreachable` zones.

    Returns (id, instance_id, region, zone, cause, lease_id, first_seen_at, end_requested_at).
    """
    here = {"here_account": account, "here_region": region}
    return Bound(_FOUND_GONE, {**here, "still_alive": list(still_alive), "unreachable": list(unreachable)})
