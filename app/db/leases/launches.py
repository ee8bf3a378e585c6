"""Statements of the workers on a lease, and around it, while they launch and end its VM."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Delete,
    Executable,
    Text,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    not_,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Json, Time
from app.db.schema.tables import attempt, lease, lease_group, lease_secret, tenant, volume
from app.domain.ids import AttemptId, LeaseId, TenantId
from app.domain.leases import LIVE_ATTEMPT

WANTED = lease.c.desired == "run"
"""Guard: nobody has requested the end of the lease meanwhile."""

EXPIRED = lease.c.expires_at <= func.now()
"""Guard: nobody has extended the lease meanwhile."""

TENANT_SUSPENDED = exists().where(tenant.c.id == lease.c.tenant_id, tenant.c.status != "active")
"""Guard: nobody has activated the tenant again meanwhile."""

STILL_IN_POOL = and_(lease.c.group_pool == bindparam("pool", type_=Json), not_(lease.c.group_retreat))
"""Guard: the group of the lease has not given up this pool meanwhile."""

FIRST_ATTEMPT_AT = func.coalesce(lease.c.first_attempt_at, func.now())
LAUNCHED_AT = func.coalesce(lease.c.launched_at, func.now())
"""Values for `transitions.write`: now, unless an earlier attempt has set the column."""

RATE_SINCE = func.coalesce(
    select(attempt.c.billing_started_at)
    .where(attempt.c.lease_id == lease.c.id, attempt.c.n == lease.c.attempts_count)
    .correlate(lease)
    .scalar_subquery(),
    func.now(),
)
"""When the rate of the newest attempt begins: now, or with the VM's start where it ran while its rows were lost."""

BILLING_STARTED_AT = func.coalesce(lease.c.billing_started_at, RATE_SINCE)

_UNEXTENDED = (
    select(lease.c.id)
    .where(lease.c.id == bindparam("lease", type_=Text), lease.c.expires_at == bindparam("expires_at", type_=Time))
    .with_for_update()
)


def unextended(lease_id: LeaseId, expires_at: datetime) -> Bound[AnySelect]:
    """Returns a row while the lease still has this expiry.

    The row stays locked: nobody extends the lease before the transaction ends.
    """
    return Bound(_UNEXTENDED, {"lease": lease_id, "expires_at": expires_at})


_PRIVATE = (
    select(
        lease.c.id.label("lease_id"),
        tenant.c.max_total_seconds,
        lease_secret.c.startup_script,
        lease_group.c.id.label("group_id"),
        lease_group.c.placement,
        lease_group.c.interconnect,
        select(func.json_object_agg(volume.c.name, volume.c.cloud_id))
        .where(volume.c.lease_id == lease.c.id)
        .scalar_subquery()
        .label("volumes"),
    )
    .select_from(
        lease.join(tenant, tenant.c.id == lease.c.tenant_id)
        .outerjoin(lease_secret, lease_secret.c.lease_id == lease.c.id)
        .outerjoin(lease_group, lease_group.c.id == lease.c.group_id)
    )
    .where(lease.c.id == func.any(bindparam("leases", type_=ARRAY(Text))))
)


def private(lease_ids: Iterable[LeaseId]) -> Bound[AnySelect]:
    """A row (lease_id, max_total_seconds, startup_script, group_id, placement, interconnect, volumes) for each lease.

    Only a launch needs these data. `max_total_seconds`: the longest duration of the lease in seconds, extensions
    included. `startup_script`: null when the lease has none. `volumes`: the provider's ids of the volumes that it holds, by
    name. The others are of the lease's group: null when it has none.
    """
    return Bound(_PRIVATE, {"leases": list(lease_ids)})


_OF = bindparam("of", type_=Text)
_ALONE = exists().where(lease.c.id == _OF, lease.c.group_id.is_(None))
_FORGET_SCRIPT = delete(lease_secret).where(lease_secret.c.lease_id == _OF, _ALONE)
_FORGET_PARAMS = update(attempt).where(attempt.c.lease_id == _OF).values(params=None)


def forget_script(lease_id: LeaseId) -> Bound[Delete]:
    """Deletes the startup script of a lease that has ended. That of a member is kept for others, until its group ends."""
    return Bound(_FORGET_SCRIPT, {"of": lease_id})


def forget_params(lease_id: LeaseId) -> Bound[Update]:
    """Clears the sent parameters, which may contain the startup script too. Their hash stays."""
    return Bound(_FORGET_PARAMS, {"of": lease_id})


def reserve_slot(lease_id: LeaseId, claim_id: UUID, bucket: str, slot: datetime) -> Update:
    """Records the launch slot reserved in a provider's rate bucket."""
    return (
        update(lease)
        .where(lease.c.id == lease_id, lease.c.claim_id == claim_id)
        .values(slot_bucket=bucket, slot_at=slot)
    )


_TRADE = text(
    """
    WITH waiting AS (
        SELECT id, tenant_id, slot_at, row_number() OVER (PARTITION BY tenant_id ORDER BY slot_at) AS place,
               count(*) OVER (PARTITION BY tenant_id) AS reserved
        FROM lease
        WHERE next_due IS NOT NULL AND desired = 'run' AND slot_bucket = :bucket AND slot_at > now() + interval '1 second'
    ), mine AS (
        SELECT count(*) AS reserved FROM waiting WHERE tenant_id = :tenant_id
    ), other AS (
        SELECT waiting.id, waiting.slot_at
        FROM waiting, mine
        WHERE waiting.tenant_id <> :tenant_id AND waiting.slot_at < :slot
          AND waiting.place = mine.reserved + 1 AND waiting.reserved > mine.reserved + 1
        ORDER BY waiting.reserved DESC, waiting.slot_at
        LIMIT 1
    )
    UPDATE lease SET slot_at = :slot
    FROM other
    WHERE lease.id = other.id AND lease.slot_at = other.slot_at AND lease.slot_bucket = :bucket
    RETURNING other.slot_at
    """
)
# A lease whose slot has passed meanwhile has no slot to trade. A lease that wakes at a slot it traded reads the later
# slot, and rests.


def trade_slot(tenant_id: TenantId, bucket: str, slot: datetime) -> Bound[Executable]:
    """Trades the late slot just reserved for an earlier slot of the tenant that has reserved most.

    Tenants take turns this way: the n-th waiting lease of one tenant stands beside the n-th of another. The order of
    their requests does not matter. Returns one row (slot_at), which now belongs to the requesting tenant, or none: then
    the tenant keeps `slot`.
    """
    return Bound(_TRADE, {"tenant_id": tenant_id, "bucket": bucket, "slot": slot})


def deadline_written(lease_id: LeaseId, claim_id: UUID, deadline: datetime) -> Update:
    """Records that the provider's tag now contains this deadline."""
    return update(lease).where(lease.c.id == lease_id, lease.c.claim_id == claim_id).values(deadline_applied=deadline)


_START_BILLING = (
    update(attempt)
    .where(
        attempt.c.id == func.any(bindparam("attempts", type_=ARRAY(Text))),
        attempt.c.billing_started_at.is_(None),
    )
    .values(billing_started_at=func.now())
)


def start_billing(attempt_ids: Iterable[AttemptId]) -> Bound[Update]:
    """The provider's VMs run: their billing starts now. The caller has locked the leases."""
    return Bound(_START_BILLING, {"attempts": list(attempt_ids)})


_READY = (
    update(attempt)
    .where(attempt.c.id == func.any(bindparam("attempts", type_=ARRAY(Text))), ~attempt.c.ready)
    .values(ready=True)
)


def ready(attempt_ids: Iterable[AttemptId]) -> Bound[Update]:
    """The VMs of leases that are active now are ready. The caller has locked the leases."""
    return Bound(_READY, {"attempts": list(attempt_ids)})


_TERMINATE_SENT = text(
    f"""
    WITH sent AS MATERIALIZED (
        SELECT * FROM unnest(CAST(:attempts AS text[]), CAST(:tokens AS text[]), CAST(:known AS bool[])) AS s (id, token, known)
    ), locked AS MATERIALIZED (
        SELECT id FROM attempt WHERE id = ANY (CAST(:attempts AS text[])) ORDER BY id FOR NO KEY UPDATE)
    UPDATE attempt a SET terminate_sent_at = now(), terminate_tries = a.terminate_tries + 1,
        end_accepted = a.end_accepted OR s.known, retry_at = NULL
    FROM sent s
    WHERE a.id = s.id AND a.token = s.token AND a.id IN (SELECT id FROM locked)
      AND a.state IN ({", ".join(f"'{state}'" for state in sorted(LIVE_ATTEMPT))})
    """
)


class AcceptedEnd(NamedTuple):
    """An attempt whose VM the provider accepted to end. `known`: the provider knew the VM."""

    attempt_id: AttemptId
    token: str
    known: bool


def terminate_sent(ends: Sequence[AcceptedEnd]) -> Bound[Executable]:
    """Records that the provider accepted to end these VMs."""
    return Bound(
        _TERMINATE_SENT,
        {
            "attempts": [end.attempt_id for end in ends],
            "tokens": [end.token for end in ends],
            "known": [end.known for end in ends],
        },
    )
