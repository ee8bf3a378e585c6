"""Facts for the explanation of a lease. Each statement is one round trip and reads rows by index."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Integer, Select, bindparam, func, literal_column, not_, select, text, tuple_
from sqlalchemy.sql.elements import ColumnElement

from app.db.core.compiled import Compiled, Query
from app.db.core.sql import AnySelect, Id, Time
from app.db.core.tenant_scope import asking
from app.db.leases.billing import parts
from app.db.operations import brakes
from app.db.schema.tables import account_region, attempt, installation, lease, quota, quota_claim, worker_heartbeat
from app.db.tenancy.quota_limits import NO_BUDGET
from app.domain.leases import TERMINAL, Desired, LeaseState

_WORKER_SILENT: ColumnElement[timedelta] = literal_column("interval '1 minute'")

_LEASE = (
    "id",
    "tenant_id",
    "state",
    "desired",
    "reason",
    "request",
    "wait_until",
    "expires_at",
    "max_cost",
    "max_rate",
    "volume_place",
    "cost_closed",
    "pass_started_at",
    "running_at",
    "ready_at",
    "release_requested_at",
    "ended_at",
    "attempts_count",
    "next_due",
    "slot_at",
)
_THIS = (lease.c.id == bindparam("lease_id", type_=Id), asking(lease.c.tenant_id))

LEASE = Compiled(
    select(
        func.now().label("now"),
        *(lease.c[name] for name in _LEASE),
        (lease.c.held_until > func.now()).label("claimed"),
        select(installation.c.hold.is_not(None)).scalar_subquery().label("on_hold"),
        select(installation.c.launches_stopped.is_not(None)).scalar_subquery().label("launches_stopped"),
    ).where(*_THIS)
)
"""The lease with the database's `now` and the brakes of the installation. Parameter: lease_id."""


ATTEMPTS = Compiled(
    select(
        *(attempt.c[name] for name in ("account", "region", "zone", "instance_type", "market", "reservation")),
        *(attempt.c[name] for name in ("n", "state", "error", "vm_state", "vm_state_at", "created_at", "known_at")),
        *(attempt.c[name] for name in ("retry_at", "ended_at", "provider")),
        (attempt.c.price_per_hour + parts(attempt)).label("price_per_hour"),
        attempt.c.proof_awaited_at,
        attempt.c.gpu_rebooted_at,
    )
    .where(attempt.c.lease_id == bindparam("lease_id", type_=Id), asking(attempt.c.tenant_id))
    .order_by(attempt.c.n.desc())
    .limit(bindparam("limit", type_=Integer))
)
"""The newest attempts of the lease, newest first. Parameters: lease_id, limit."""

QUOTA = Compiled(
    select(
        quota.c.resource,
        quota.c.limit,
        quota.c.used,
        func.coalesce(quota_claim.c.amount, 0).label("reserved"),
    )
    .select_from(
        quota.outerjoin(
            quota_claim,
            (quota_claim.c.resource == quota.c.resource)
            & (quota_claim.c.lease_id == bindparam("lease_id", type_=Id))
            & (quota_claim.c.tenant_id == quota.c.tenant_id),
        )
    )
    .where(quota.c.tenant_id == bindparam("owner", type_=Id), asking(quota.c.tenant_id), NO_BUDGET)
)
"""Limits and use of the tenant `owner`, with what the lease reserves. Parameters: lease_id, owner."""


def _unlisted() -> Select[str, str, bool]:
    started = (
        select(func.min(worker_heartbeat.c.started_at))
        .where(worker_heartbeat.c.kind == "worker", worker_heartbeat.c.seen_at > func.now() - _WORKER_SILENT)
        .scalar_subquery()
    )
    since = func.coalesce(started, literal_column("timestamptz '-infinity'", type_=Time))
    place = account_region.alias("place")
    return select(
        place.c.account,
        place.c.region,
        brakes.listing_failed_since(place.c.account, place.c.region, since).exists().label("failed"),
    ).where(not_(brakes.listed_since(place.c.account, place.c.region, since).exists()))


UNLISTED = Compiled(_unlisted())
"""Accounts and regions (account, region, failed) where no live worker may launch yet.

A worker launches in a region after the first complete listing since its start. The oldest live worker counts here.
"""

_QUEUED = (
    text("NOT lease.state IN ({})".format(", ".join(repr(str(state)) for state in sorted(TERMINAL)))),
    lease.c.state == str(LeaseState.QUEUED),
    lease.c.desired == str(Desired.RUN),
)
_NOT_LATER = tuple_(lease.c.next_due, lease.c.id) <= tuple_(
    bindparam("next_due", type_=Time), bindparam("lease_id", type_=Id)
)
_OWN = lease.c.tenant_id == bindparam("owner", type_=Id)


def _positions() -> AnySelect:
    counts: list[Any] = [
        func.count().label("waiting"),
        func.count().filter(_NOT_LATER).label("position"),
        func.count().filter(_OWN).label("waiting_in_tenant"),
        func.count().filter(_OWN, _NOT_LATER).label("position_in_tenant"),
        (func.count().filter(lease.c.id == bindparam("lease_id", type_=Id), _NOT_LATER) > 0).label("counted"),
    ]
    return select(*counts).where(*_QUEUED)


QUEUE = Query(_positions())
"""Counts of queued leases of all tenants, so it is executed without a tenant: it returns no other fact about them.

`counted`: whether the lease still waits as it was read.

Parameters: lease_id, owner, next_due.
"""
