"""Who sends a launch batch, and who joins it: the election of a leader, and the claims of its company."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    Interval,
    Text,
    Update,
    Uuid,
    bindparam,
    func,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound
from app.db.leases.attempts import MAY_SEND
from app.db.leases.claims import is_free
from app.db.leases.process_locks import claim_ids
from app.db.schema.tables import attempt, lease
from app.domain.ids import BatchId, LeaseId, TenantId

# The leases in which an attempt waits to be sent with others: newest, planned, never sent, wanted.
_WAITING = """
    FROM attempt a JOIN lease l ON l.id = a.lease_id AND l.attempts_count = a.n
    WHERE a.tenant_id = :tenant AND a.batch_key = :key AND a.state = 'planned' AND l.desired = 'run'
"""

_LOCK_KEY = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))")

_ELECT = text(
    f"""
    WITH others AS MATERIALIZED (
        SELECT count(*) AS planned,
               count(*) FILTER (WHERE l.id <> :lease AND l.slot_bucket = :bucket AND l.slot_at > now() - CAST(:late AS interval)) AS leaders,
               max(l.slot_at) FILTER (WHERE l.id <> :lease AND l.slot_bucket = :bucket) AS slot_at
        {_WAITING}
    ), elected AS (
        UPDATE lease SET slot_bucket = :bucket, slot_at = now()
        FROM others
        WHERE lease.id = :lease AND lease.claim_id = :claim AND others.planned > others.leaders * :most
        RETURNING lease.id
    )
    SELECT EXISTS (SELECT FROM elected) AS elected, others.slot_at, others.planned, others.leaders,
           others.planned > 1 OR EXISTS (
               SELECT FROM lease o WHERE o.tenant_id = :tenant AND o.id <> :lease AND o.state IN ('queued', 'provisioning')
                 AND o.desired = 'run' AND o.next_due <= now() AND NOT EXISTS (
                     SELECT FROM attempt p WHERE p.lease_id = o.id AND p.state IN ('sent', 'known', 'settling'))) AS company
    FROM others
    """
)


def lock_key(key: str) -> Bound[Executable]:
    """Until the end of the transaction nobody else elects a leader among the attempts of this key."""
    return Bound(_LOCK_KEY, {"key": key})


def elect(
    lease_id: LeaseId, claim_id: UUID, tenant_id: TenantId, key: str, bucket: str, *, most: int, late: float
) -> Bound[Executable]:
    """Makes the lease a leader of its key, unless enough leaders wait for the planned attempts of this key.

    A leader sends the next batch of up to `most` attempts. A leader whose slot passed `late` seconds ago does not count.
    Returns one row (elected, slot_at, planned, leaders, company). `leaders`: how many others lead; `slot_at`: their latest
    slot. `planned`: how many attempts of the key wait, this one included. `company`: other attempts of the key wait, or
    other leases of the tenant are about to be placed. The caller has locked the key.
    """
    return Bound(
        _ELECT,
        {
            "lease": lease_id,
            "claim": claim_id,
            "tenant": tenant_id,
            "key": key,
            "bucket": bucket,
            "most": most,
            "late": timedelta(seconds=late),
        },
    )


_EXPECTING = text(
    f"""
    SELECT (SELECT count(*) {_WAITING}) < :most AND EXISTS (
        SELECT FROM lease o WHERE o.tenant_id = :tenant AND o.state = 'queued' AND o.desired = 'run' AND o.next_due <= now()
    ) AS expecting
    """
)


def expecting(tenant_id: TenantId, key: str, *, most: int) -> Bound[Executable]:
    """One row (expecting): the key has room in a batch of `most`, and leases of the tenant are due to be placed."""
    return Bound(_EXPECTING, {"tenant": tenant_id, "key": key, "most": most})


_LEAD = (
    update(lease)
    .where(
        lease.c.id == bindparam("lease", type_=Text),
        lease.c.claim_id == bindparam("claim", type_=Uuid),
        lease.c.held_until > func.now(),
        *MAY_SEND,
    )
    .values(held_until=func.now() + bindparam("hold", type_=Interval), slot_bucket=None, slot_at=None)
    .returning(lease.c.id)
)


def lead(lease_id: LeaseId, claim_id: UUID, *, call_seconds: float, hold_seconds: float) -> Bound[Update]:
    """The guard of `attempts.send` for the lease whose worker sends a batch. Returns one row, or none: nothing may be sent.

    The lease stays locked until the end of the transaction, and its claim is extended over the call.
    """
    call, hold = timedelta(seconds=call_seconds), timedelta(seconds=hold_seconds)
    return Bound(_LEAD, {"lease": lease_id, "claim": claim_id, "call": call, "hold": hold})


_MAY_JOIN = (
    attempt.c.tenant_id == bindparam("tenant", type_=Text),
    attempt.c.batch_key == bindparam("key", type_=Text),
    attempt.c.state == "planned",
    attempt.c.retry_at.is_(None) | (attempt.c.retry_at <= func.now()),
)
_IS_SLOT = attempt.c.batch_id == bindparam("batch", type_=Text), attempt.c.state == "sent"


@lru_cache(maxsize=16)
def _claim(of: tuple[ColumnElement[bool], ...], number: int | None) -> Update:
    """Parameters: leader, limit, hold, call, and those of the condition `of`."""
    newest = (attempt.c.lease_id == lease.c.id, attempt.c.n == lease.c.attempts_count)
    company = (
        select(lease.c.id)
        .join(attempt, newest[0] & newest[1])
        .where(lease.c.id != bindparam("leader", type_=Text), *of, is_free(), *MAY_SEND)
        .order_by(lease.c.slot_at.is_not(None), attempt.c.created_at)
        .limit(bindparam("limit", type_=Integer))
        .with_for_update(of=lease, skip_locked=True)
        .cte("company")
    )
    held_until = func.now() + bindparam("hold", type_=Interval)
    values = {"claim_id": claim_ids(number), "held_until": held_until, "slot_bucket": None, "slot_at": None}
    return (
        update(lease)
        .where(lease.c.id == company.c.id)
        .values(**values, next_due=func.now())
        .returning(lease.c.id, lease.c.claim_id)
    )


def claim_company(
    tenant_id: TenantId,
    key: str,
    leader: LeaseId,
    *,
    limit: int,
    call_seconds: float,
    hold_seconds: float,
    number: int | None,
) -> Bound[Update]:
    """Claims leases of the tenant whose attempts can be sent with the leader's. Skips those that others hold or lock.

    Other leaders come last: what they leave behind would have no leader. Returns (id, claim_id) rows.
    """
    call, hold = timedelta(seconds=call_seconds), timedelta(seconds=hold_seconds)
    parameters = {"tenant": tenant_id, "key": key, "leader": leader, "limit": limit, "call": call, "hold": hold}
    return Bound(_claim(_MAY_JOIN, number), parameters)


def claim_slots(
    batch_id: BatchId, leader: LeaseId, *, limit: int, call_seconds: float, hold_seconds: float, number: int | None
) -> Bound[Update]:
    """Claims the wanted leases of a batch that nobody holds and whose outcome is unknown, besides the leader.

    Returns (id, claim_id) rows.
    """
    call, hold = timedelta(seconds=call_seconds), timedelta(seconds=hold_seconds)
    parameters = {"batch": batch_id, "leader": leader, "limit": limit, "call": call, "hold": hold}
    return Bound(_claim(_IS_SLOT, number), parameters)


_WAKE_LEFT = text(
    f"""
    UPDATE lease SET next_due = now(), wake_count = wake_count + 1
    WHERE id IN (SELECT l.id {_WAITING} AND l.held_until > now() ORDER BY l.id FOR NO KEY UPDATE OF l)
    """
)


def wake_left(tenant_id: TenantId, key: str) -> Bound[Executable]:
    """Wakes the leases of the key that somebody held while a batch was gathered: their leader is gone."""
    return Bound(_WAKE_LEFT, {"tenant": tenant_id, "key": key})


_FREE = text(
    """
    UPDATE lease l SET claim_id = NULL, held_until = NULL, next_due = now()
    FROM unnest(CAST(:ids AS text[]), CAST(:claims AS uuid[])) AS c (id, claim)
    WHERE l.id = c.id AND l.claim_id = c.claim AND l.ended_at IS NULL
    """
)


def free(claimed: Mapping[LeaseId, UUID]) -> Bound[Executable]:
    """Releases these claims. The leases are due at once."""
    return Bound(_FREE, {"ids": list(claimed), "claims": list(claimed.values())})
