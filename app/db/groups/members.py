"""Members of groups: their creation, their locks, and their release. A transaction locks members before their group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, Executable, Integer, Interval, Text, Update, bindparam, func, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.core.sql import Amount, AnySelect, Id, Json, Money, Time
from app.db.schema.tables import lease, lease_secret
from app.domain.event_types import EventType
from app.domain.groups.groups import Pool
from app.domain.ids import GroupId, LeaseId, TenantId
from app.domain.quotas import Amounts


def member_name(group_name: str, rank: int) -> str:
    """The name of the lease at a rank."""
    return f"{group_name}-{rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMembers:
    """Leases that become members, all from one request.

    `names`: by rank. `request`: `LeaseRequest.as_json`; each lease's name is written into it. `claims`: what each
    lease has reserved, of quota and of budgets. `minimum`: what admission reserves of quota for each. `pool`: the
    group's, or None while none is elected. `expires_at` None: `ttl` from now. `wait`: how long a member of a formed
    group waits for capacity.
    """

    tenant_id: TenantId
    group_id: GroupId
    names: Mapping[int, str]
    request: Mapping[str, Any]
    labels: Mapping[str, str]
    on_interruption: str
    minimum: Mapping[str, str]
    claims: Amounts
    minimum_rate: Decimal
    estimated_price_per_hour: Decimal | None
    ttl: timedelta
    wait: timedelta
    expires_at: datetime | None = None
    max_cost: Decimal | None = None
    key_id: str | None = None
    expiry_warnings: Sequence[int] | None = None
    startup_script: str | None = None
    pool: Pool | None = None
    request_id: str | None = None


_INSERT = text(
    f"""
    WITH terms AS MATERIALIZED (SELECT id FROM tenant WHERE id = :tenant_id AND status = 'active' FOR SHARE),
    member AS (
        SELECT * FROM unnest(CAST(:lease_ids AS text[]), CAST(:ranks AS int[]), CAST(:names AS text[]), CAST(:event_ids AS text[]))
            AS m (id, rank, name, event_id)),
    new AS (
        INSERT INTO lease (
            id, tenant_id, name, labels, request, on_interruption, minimum_claim, estimated_price_per_hour, max_cost,
            minimum_rate, key_id, expiry_warnings, unique_name, expires_at, wait_until, events_count, request_id,
            group_id, rank, group_pool)
        SELECT m.id, t.id, m.name, :labels, jsonb_set(:request, '{{name}}', to_jsonb(m.name)), :on_interruption,
            :minimum_claim, :estimated_price_per_hour, :max_cost, :minimum_rate, :key_id, :expiry_warnings, true,
            coalesce(:expires_at, now() + :ttl), now() + :wait, 1, :request_id, :group_id, m.rank, :group_pool
        FROM member m, terms t
        RETURNING id, tenant_id, rank),
    secret AS (
        INSERT INTO lease_secret (lease_id, tenant_id, startup_script)
        SELECT id, tenant_id, :startup_script FROM new WHERE :startup_script IS NOT NULL),
    claims AS (
        INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
        SELECT n.id, n.tenant_id, c.resource, c.amount
        FROM new n, unnest(CAST(:resources AS text[]), CAST(:amounts AS numeric[])) AS c (resource, amount)),
    told AS (
        INSERT INTO event (id, tenant_id, lease_id, lease_sequence, type, data, request_id)
        SELECT m.event_id, n.tenant_id, n.id, 1, '{EventType.LEASE_QUEUED}',
            jsonb_build_object('name', m.name, 'reason', NULL), :request_id
        FROM new n JOIN member m ON m.id = n.id)
    SELECT id, rank FROM new ORDER BY rank
    """
).bindparams(
    bindparam("tenant_id", type_=Id),
    bindparam("lease_ids", type_=ARRAY(Text)),
    bindparam("ranks", type_=ARRAY(Integer)),
    bindparam("names", type_=ARRAY(Text)),
    bindparam("event_ids", type_=ARRAY(Text)),
    bindparam("labels", type_=Json),
    bindparam("request", type_=Json),
    bindparam("on_interruption", type_=Text),
    bindparam("minimum_claim", type_=Json),
    bindparam("estimated_price_per_hour", type_=Money),
    bindparam("max_cost", type_=Money),
    bindparam("minimum_rate", type_=Money),
    bindparam("key_id", type_=Id),
    bindparam("expiry_warnings", type_=Json),
    bindparam("expires_at", type_=Time),
    bindparam("ttl", type_=Interval),
    bindparam("wait", type_=Interval),
    bindparam("request_id", type_=Text),
    bindparam("group_id", type_=Id),
    bindparam("group_pool", type_=Json),
    bindparam("startup_script", type_=Text),
    bindparam("resources", type_=ARRAY(Text)),
    bindparam("amounts", type_=ARRAY(Amount)),
)


def insert_members(new: NewMembers) -> Bound[Executable]:
    """Inserts a lease for each rank, with its secret, its claims and its first event.

    The caller has reserved the quota of all of them with `quotas.admit` in the same transaction. Returns (id, rank)
    rows by rank, or none when the tenant is not active. The index `ix_lease_live_name` refuses a name in use.
    """
    ranks = sorted(new.names)
    return Bound(
        _INSERT,
        {
            "tenant_id": new.tenant_id,
            "group_id": new.group_id,
            "lease_ids": [new_id("lease") for _ in ranks],
            "ranks": ranks,
            "names": [new.names[rank] for rank in ranks],
            "event_ids": [new_id("event") for _ in ranks],
            "labels": dict(new.labels),
            "request": dict(new.request),
            "on_interruption": new.on_interruption,
            "minimum_claim": dict(new.minimum),
            "estimated_price_per_hour": new.estimated_price_per_hour,
            "max_cost": new.max_cost,
            "minimum_rate": new.minimum_rate,
            "key_id": new.key_id,
            "expiry_warnings": None if new.expiry_warnings is None else list(new.expiry_warnings),
            "expires_at": new.expires_at,
            "ttl": new.ttl,
            "wait": new.wait,
            "request_id": new.request_id,
            "group_pool": None if new.pool is None else new.pool.as_json(),
            "startup_script": new.startup_script,
            "resources": list(new.claims),
            "amounts": list(new.claims.values()),
        },
    )


_GROUP = lease.c.group_id == bindparam("group", type_=Text)

_LOCKED = select(lease.c.id).where(_GROUP, lease.c.ended_at.is_(None)).order_by(lease.c.id).with_for_update()


def lock_members(group_id: GroupId) -> Bound[AnySelect]:
    """Locks the members that have not ended, in the order of their ids. Returns their ids.

    Every change of a member locks the member first and then wakes its group. A transaction that changes a group and its
    members therefore calls this first. Otherwise the two deadlock.
    """
    return Bound(_LOCKED, {"group": group_id})


_SCRIPT = (
    select(lease_secret.c.startup_script)
    .select_from(lease_secret.join(lease, lease.c.id == lease_secret.c.lease_id))
    .where(_GROUP)
    .limit(1)
    .scalar_subquery()
)
_TEMPLATE = (
    select(
        lease.c.request,
        lease.c.labels,
        lease.c.on_interruption,
        lease.c.minimum_claim,
        lease.c.minimum_rate,
        lease.c.estimated_price_per_hour,
        lease.c.max_cost,
        lease.c.key_id,
        lease.c.expiry_warnings,
        lease.c.expires_at,
        (lease.c.expires_at - func.now()).label("ttl"),
        _SCRIPT.label("startup_script"),
    )
    .where(_GROUP)
    .order_by(lease.c.expires_at.desc(), lease.c.id.desc())
    .limit(1)
)


def template(group_id: GroupId) -> Bound[AnySelect]:
    """The terms of the member with the latest expiry: those of a member that is added to the group."""
    return Bound(_TEMPLATE, {"group": group_id})


_FORGET = text(
    "DELETE FROM lease_secret s USING lease l WHERE l.id = s.lease_id AND l.group_id = :group AND l.ended_at IS NOT NULL"
).bindparams(bindparam("group", type_=Text))


def forget_scripts(group_id: GroupId) -> Bound[Executable]:
    """Deletes the startup scripts of a group that ends. Its ended members kept theirs for replacements."""
    return Bound(_FORGET, {"group": group_id})


def ids(rows: Sequence[Any]) -> list[LeaseId]:
    """The ids of rows with a column `id`."""
    return [LeaseId(row.id) for row in rows]


_RECORD_CHECK = (
    update(lease)
    .where(lease.c.id == bindparam("lease", type_=Text), lease.c.group_id.is_not(None))
    .values(group_check=bindparam("check", type_=Json))
    .returning(lease.c.id)
)


def record_check(lease_id: LeaseId, check: Mapping[str, Any]) -> Bound[Update]:
    """Stores what the VM of a member found. Returns no row when the lease is no member."""
    return Bound(_RECORD_CHECK, {"lease": lease_id, "check": dict(check)})
