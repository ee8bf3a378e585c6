"""The whole installation at a glance: what is, from one walk over the live leases, and what was. Across all tenants."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import ClauseElement, Interval, case, column, func, literal, literal_column, select, table, text

from app.db.core.compiled import Query, with_values
from app.db.fleet.jobs import ALIVE_FOR, MISSING_AFTER
from app.db.leases.billing import cost, price_segments
from app.db.operations.active_brakes import ACTIVE_BRAKES
from app.db.operations.invariants import NOTED
from app.db.operations.invoices import UNLISTED
from app.db.operations.launch_outcomes import LAUNCHES
from app.db.operations.ops import BRAKES, GHOSTS, OPEN, StuckAfter, stuck
from app.db.operations.waiting import EVENT_LAG, OVERDUE
from app.db.schema.leases import LIVE
from app.db.schema.tables import account_check, attempt, lease, orphan, periodic_job, tenant, worker_heartbeat
from app.db.usage import volume_records
from app.domain.error_kinds import ErrorKind
from app.domain.leases import AttemptState

MOST_TENANTS = 100
LATE_AFTER = 3
"""Intervals of a job."""
_DAY = timedelta(days=1)

_LIVE_LEASES = (
    select(
        lease.c.tenant_id,
        lease.c.state,
        lease.c.provider,
        lease.c.region,
        lease.c.gpu_model,
        lease.c.gpu_count,
        lease.c.rate_per_hour,
        lease.c.placement.is_not(None).label("placed"),
    )
    .where(LIVE)
    .cte("live")
)
_live = table("live", *(column(member.name) for member in _LIVE_LEASES.c))
"""The same by its name: the parts below are written out one by one, and stand beside it in one statement."""

_LEASES = func.count().label("leases")
_GPUS = func.coalesce(func.sum(_live.c.gpu_count), 0).label("gpus")
_SPEND = func.coalesce(func.sum(_live.c.rate_per_hour), 0).label("spend_per_hour")
_PLACE = (_live.c.provider, _live.c.region, _live.c.gpu_model)

RUNNING = select(_live.c.state, _LEASES, _GPUS).group_by(_live.c.state)
"""Leases that have not ended and their GPUs, by state."""

PLACED = select(*_PLACE, _LEASES, _GPUS, _SPEND).where(_live.c.placed).group_by(*_PLACE)
"""Leases that have not ended and have an offering, by where and what."""

TENANTS = (
    select(tenant.c.id.label("tenant_id"), tenant.c.name, _LEASES, _GPUS, _SPEND)
    .select_from(_live.join(tenant, tenant.c.id == _live.c.tenant_id))
    .group_by(tenant.c.id, tenant.c.name)
    .order_by(_SPEND.desc(), _LEASES.desc(), tenant.c.id)
    .limit(MOST_TENANTS)
)
"""Tenants with leases that have not ended, those that spend most first, at most MOST_TENANTS."""

SPEND_NOW = select((func.coalesce(func.sum(_live.c.rate_per_hour), 0) + volume_records.rate()).label("usd"))
"""USD an hour of everything that is billed now, leases and volumes: what has ended is not."""

ORPHAN_COUNTS = select(orphan.c.cause, func.count().label("orphans")).where(OPEN).group_by(orphan.c.cause)
"""Open orphans by cause."""

_launches = LAUNCHES.subquery("launches")
REFUSED_LAUNCHES = (
    select(
        *(_launches.c[name] for name in ("provider", "account", "region", "outcome", "in_a_row", "since")),
        _launches.c.error["code"].astext.label("code"),
        _launches.c.error["message"].astext.label("message"),
    )
    .where(_launches.c.in_a_row > 0)
    .order_by(_launches.c.account, _launches.c.region, _launches.c.outcome)
)
"""Launches of the last hour that were refused since the last one that succeeded there, by the class of the error."""

_LAST_OK = func.coalesce(periodic_job.c.last_ok_at, periodic_job.c.created_at)
_LATE = func.extract("epoch", func.now() - _LAST_OK)
LATE_JOBS = (
    select(
        *(periodic_job.c[name] for name in ("kind", "account", "region", "interval_seconds", "last_error")),
        _LAST_OK.label("since"),
    )
    .where(_LATE / periodic_job.c.interval_seconds > LATE_AFTER)
    .order_by(_LAST_OK)
)
"""Periodic jobs that have not succeeded for LATE_AFTER of their intervals."""

_FAILED_NAMES = literal_column(
    "(SELECT json_agg(DISTINCT one ->> 'name') FROM jsonb_array_elements(account_check.checks) one"
    " WHERE one ->> 'result' = 'failed')"
)
FAILED_CHECKS = (
    select(account_check.c.account, account_check.c.failed, account_check.c.checked_at, _FAILED_NAMES.label("names"))
    .where(account_check.c.failed > 0)
    .order_by(account_check.c.account)
)
"""Accounts with failed checks in the last run."""

HEARTBEATS = select(
    worker_heartbeat.c.kind,
    func.count().filter(worker_heartbeat.c.seen_at > func.now() - literal(ALIVE_FOR, Interval)).label("processes"),
    func.extract("epoch", func.now() - func.max(worker_heartbeat.c.seen_at)).label("age"),
).group_by(worker_heartbeat.c.kind)
"""Processes by kind with a heartbeat within the last 15 seconds, and the seconds since the latest one."""

LOST_HOSTS = text(
    f"""
    SELECT host, kind, extract(epoch FROM now() - max(seen_at))::float8 AS age FROM worker_heartbeat
    WHERE host IS NOT NULL GROUP BY host, kind
    HAVING max(seen_at) < now() - interval '{MISSING_AFTER.total_seconds():g} seconds' ORDER BY host, kind
    """
)
"""Hosts whose processes of a kind ended without a clean stop, and where none of that kind reports now."""

ENDED = select(lease.c.state, _LEASES, literal(0).label("gpus")).where(~LIVE).group_by(lease.c.state)
"""Leases that have ended, by state, as long as they are kept."""

_MONTH = func.date_trunc("month", func.now())
_segment = price_segments(attempt, ("billing_ended_at",))
_UNTIL = func.coalesce(_segment.c.ends_at, func.now())
_USD = cost(_segment.c.rate_per_hour, func.greatest(_segment.c.starts_at, _MONTH), _UNTIL)
SPEND_OF_MONTH = select((func.coalesce(func.sum(_USD), 0) + volume_records.cost_since(_MONTH)).label("usd")).where(
    _UNTIL > _MONTH, func.coalesce(_segment.c.billing_ended_at, func.now()) > _MONTH
)
"""USD since the month began (UTC), for the attempts and volumes that were billed in it."""

_TRIED_AT = (attempt.c.provider, attempt.c.region, attempt.c.instance_type, attempt.c.market)
_REFUSED = (attempt.c.state == str(AttemptState.REFUSED)) & (
    attempt.c.error["class"].astext == str(ErrorKind.INSUFFICIENT_CAPACITY)
)
_TAKEN_BACK = attempt.c.vm_reason["interrupted"].astext == "true"
_FAILURES = func.count(case((_REFUSED, 1))).label("failures")
_INTERRUPTIONS = func.count(case((_TAKEN_BACK, 1))).label("interruptions")
TROUBLE = (
    select(*_TRIED_AT, _FAILURES, _INTERRUPTIONS)
    .where(attempt.c.ended_at > func.now() - literal(_DAY, Interval), _REFUSED | _TAKEN_BACK)
    .group_by(*_TRIED_AT)
    .order_by(attempt.c.instance_type, attempt.c.region, attempt.c.market)
)
"""Launches refused for lack of capacity, and VMs that their provider interrupted, in the last 24 hours, by place."""

_TO_READY = func.extract("epoch", lease.c.ready_at - lease.c.created_at)
TIME_TO_READY = select(
    _LEASES,
    func.percentile_cont(0.5).within_group(_TO_READY).label("p50"),
    func.percentile_cont(0.95).within_group(_TO_READY).label("p95"),
).where(lease.c.created_at > func.now() - literal(_DAY, Interval), lease.c.ready_at.is_not(None))
"""Seconds from creation to ready, of leases of the last 24 hours that became ready."""


@lru_cache(maxsize=8)
def present(stuck_after: StuckAfter, *, stuck_limit: int) -> Query:
    """What is: `as_of`, and for each part its rows as a JSON text."""
    return _together(
        {
            "brakes": BRAKES,
            "running": RUNNING,
            "placed": PLACED,
            "tenants": TENANTS,
            "spend_now": SPEND_NOW,
            "orphan_counts": ORPHAN_COUNTS,
            "active_brakes": ACTIVE_BRAKES,
            "refused_launches": REFUSED_LAUNCHES,
            "late_jobs": LATE_JOBS,
            "failed_checks": FAILED_CHECKS,
            "stuck": stuck(stuck_after, limit=stuck_limit),
            "heartbeats": HEARTBEATS,
            "lost_hosts": LOST_HOSTS,
            "overdue": OVERDUE,
            "ghosts": GHOSTS,
            "unlisted": UNLISTED,
            "invariants": NOTED,
            "event_lag": EVENT_LAG,
        },
        _LIVE_LEASES,
    )


@lru_cache(maxsize=1)
def past() -> Query:
    """What was, in the same form. It reads every lease and attempt: ask seldom."""
    return _together(
        {"ended": ENDED, "spend_of_month": SPEND_OF_MONTH, "trouble": TROUBLE, "time_to_ready": TIME_TO_READY}
    )


def _together(parts: Mapping[str, ClauseElement], *beside: Any) -> Query:
    columns = (_as_json(part).label(name) for name, part in parts.items())
    return Query(select(func.now().label("as_of"), *columns).add_cte(*beside))


def _as_json(statement: ClauseElement) -> Any:
    """The rows of `statement` as one JSON text; "[]" when there are none."""
    rows = f"SELECT coalesce(json_agg(row_to_json(part)), '[]')::text FROM ({with_values(statement)}) AS part"
    return literal_column(f"({rows})")
