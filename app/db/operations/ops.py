"""Statements behind the operators' view. They run in transactions that see every tenant."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    Float,
    Interval,
    Subquery,
    Text,
    Update,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from app.db.core.compiled import Query
from app.db.core.sql import AnySelect, Time
from app.db.fleet.account_states import CATALOGUE_ERROR, STATE
from app.db.leases.billing import ends_at
from app.db.operations.active_brakes import BRAKES_OF_ACCOUNT
from app.db.schema import cluster
from app.db.schema.leases import LIVE
from app.db.schema.tables import (
    account,
    account_check,
    account_region,
    attempt,
    gpu_latest,
    installation,
    lease,
    offering,
    orphan,
)
from app.domain.leases import LIVE_ATTEMPT, AttemptState, LeaseState, VmState
from app.domain.lifecycle import LARGE_GPU_COUNT

OPEN = orphan.c.state.in_(["seen", "ending"])
"""The orphan still requires an action."""

_HAS_NO_VM = or_(attempt.c.id.is_(None), attempt.c.vm_state.in_([VmState.GONE, VmState.ABSENT]))
GHOSTS = (
    select(
        lease.c.account,
        lease.c.region,
        func.count().label("leases"),
        cast(
            func.max(func.extract("epoch", func.now() - func.coalesce(attempt.c.vm_state_at, lease.c.updated_at))),
            Float,
        ).label("age"),
    )
    .select_from(
        lease.outerjoin(
            attempt, (attempt.c.lease_id == lease.c.id) & attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
        )
    )
    .where(LIVE, or_(lease.c.state == LeaseState.ACTIVE, lease.c.rate_per_hour.is_not(None)), _HAS_NO_VM)
    .group_by(lease.c.account, lease.c.region)
)
"""Leases that are shown as active, or billed, without a VM, by place. `age`: seconds since the VM was last seen alive."""

BRAKES = select(installation.c.id, installation.c.hold, installation.c.launches_stopped, func.now().label("as_of"))
"""The brakes that stop launches everywhere."""


_NOT_QUEUED = attempt.c.vm_state.is_distinct_from(literal_column(f"'{VmState.QUEUED}'"))
"""A VM in its provider's own queue may wait there for hours."""
_DEADLINE_LAG = 60
_DEADLINE_BEHIND = (lease.c.state == str(LeaseState.ACTIVE), lease.c.deadline_applied < ends_at(lease))
"""The end of the lease is later, but its deadline tag is not. The dead-man switch would end the VM before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckAfter:
    """Seconds after which a lease counts as stuck in a state. `boot_large`: of VMs with `LARGE_GPU_COUNT` GPUs or more."""

    release: float
    launch: float
    boot: float
    boot_large: float


def stuck(after: StuckAfter, *, limit: int) -> AnySelect:
    """Leases that stay in a state for longer than these seconds, with a settling attempt, or whose samples are not summed up."""
    each = _with_samples(after)
    return select(each).order_by(each.c.since).limit(limit)


@cache
def stuck_counts(after: StuckAfter) -> AnySelect:
    """The number of stuck leases of each kind: (kind, leases). Always the same object, so that it is compiled once."""
    each = _with_samples(after)
    return select(each.c.kind, func.count().label("leases")).group_by(each.c.kind)


def stuck_rows(after: StuckAfter) -> Subquery:
    """Stuck leases, without order or limit, so that a condition on the tenant applies before anything is joined."""
    newest = (attempt.c.lease_id == lease.c.id) & attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
    reason = lease.c.reason["message"].astext.label("reason")
    columns = (lease.c.id.label("lease_id"), lease.c.tenant_id, lease.c.state, lease.c.account, lease.c.region, reason)

    def older(kind: str, since: Any, seconds: float, *where: Any) -> AnySelect:
        cut = func.now() - literal(timedelta(seconds=seconds), Interval)
        query = select(literal(kind).label("kind"), *columns, since.label("since"))
        return query.select_from(lease.outerjoin(attempt, newest)).where(LIVE, since < cut, *where)

    provisioning = lease.c.state == str(LeaseState.PROVISIONING)
    booting = lease.c.state == str(LeaseState.BOOTING)
    large = func.coalesce(attempt.c.offering["gpu"]["count"].as_integer() >= LARGE_GPU_COUNT, false())
    return union_all(
        older("releasing", lease.c.release_requested_at, after.release, lease.c.state == str(LeaseState.RELEASING)),
        older("settling", attempt.c.settling_since, 0, attempt.c.state == str(AttemptState.SETTLING)),
        older("provisioning", attempt.c.created_at, after.launch, provisioning, _NOT_QUEUED),
        older("booting", lease.c.running_at, after.boot, booting, not_(large)),
        older("booting", lease.c.running_at, after.boot_large, booting, large),
        older("deadline", lease.c.updated_at, _DEADLINE_LAG, *_DEADLINE_BEHIND),
    ).subquery("stuck")


def _with_samples(after: StuckAfter) -> Subquery:
    """Stuck leases, and those whose samples the job could not sum up: the operator's concern, not the tenant's."""
    each = stuck_rows(after)
    error = gpu_latest.c.not_summed["error"].astext
    since = cast(gpu_latest.c.not_summed["since"].astext, Time)
    where = (lease.c.id, lease.c.tenant_id, lease.c.state, lease.c.account, lease.c.region)
    samples = (
        select(literal("samples").label("kind"), *where, error.label("reason"), since.label("since"))
        .select_from(gpu_latest.join(lease, lease.c.id == gpu_latest.c.lease_id))
        .where(gpu_latest.c.not_summed.is_not(None))
    )
    return union_all(select(each), samples).subquery("stuck_or_not_summed")


# --- orphans ----------------------------------------------------------------------------------------------

OrphanKey = tuple[datetime, str, str, str]
"""(first_seen_at, account, region, instance_id)"""

_OFFERED = and_(
    *(offering.c[name] == orphan.c[name] for name in ("account", "region", "zone", "instance_type", "market"))
)
"""The catalogue's price applies to a VM without a price of its own."""

_ORPHAN = (
    "id",
    "provider",
    "account",
    "region",
    "zone",
    "instance_id",
    "instance_type",
    "cause",
    "lease_id",
    "attempt_n",
    "tags",
    "state",
    "price_per_hour",
    "launched_at",
    "deadline_at",
    "first_seen_at",
    "last_seen_at",
    "sightings",
    "end_after",
    "end_requested_at",
    "end_error",
    "gone_at",
    "adopt_requested_at",
    "adopt_error",
)


_HISTORY = or_(OPEN, orphan.c.end_requested_at.is_not(None), orphan.c.cause.not_in(("ended_lease", "other_attempt")))
"""Without VMs of leases that a listing still showed a moment after their end, and that nobody had to end."""


def orphans(*, gone: bool, after: OrphanKey | None, limit: int) -> AnySelect:
    """Orphans, the most recently first-seen orphan first, with the current time (`as_of`).

    `gone`: include orphans that no longer exist, except VMs that disappeared by themselves after their lease's end.
    """
    place = (orphan.c.first_seen_at, orphan.c.account, orphan.c.region, orphan.c.instance_id)
    price = func.coalesce(orphan.c.price_per_hour, offering.c.price_per_hour).label("price_per_hour")
    columns = (price if name == "price_per_hour" else orphan.c[name] for name in _ORPHAN)
    query = select(*columns, func.now().label("as_of")).select_from(orphan.outerjoin(offering, _OFFERED))
    query = query.where(_HISTORY if gone else OPEN).order_by(*(column.desc() for column in place)).limit(limit)
    if after is None:
        return query
    last = (literal(after[0], Time), *(literal(part) for part in after[1:]))
    return query.where(tuple_(*place) < tuple_(*last))


def end_orphan(orphan_id: str) -> Update:
    """Ends the grace of an orphan now. Returns (account, region, instance_id), or no row when no such orphan is open."""
    return (
        update(orphan)
        .where(orphan.c.id == orphan_id, OPEN)
        .values(end_after=func.now())
        .returning(orphan.c.account, orphan.c.region, orphan.c.instance_id)
    )


def adopt_orphans() -> Update:
    """Requests the adoption of every VM of a lost row, at the next inventory of its region. Returns (instance_id)."""
    return (
        update(orphan)
        .where(OPEN, orphan.c.cause == "lost_row")
        .values(adopt_requested_at=func.now(), adopt_error=None)
        .returning(orphan.c.instance_id)
    )


# --- accounts ---------------------------------------------------------------------------------------------

BLOCKED = account_region.c.blocked_by.op("||")(
    func.jsonb_build_object("since", account_region.c.blocked_since, "until", account_region.c.blocked_until)
)
"""Why the provider refuses every launch in a region: {class, code, message, since, until}. Valid until `blocked_until`."""

ACCOUNTS = Query(
    select(
        account.c.name,
        account.c.provider,
        account.c.identity,
        STATE.label("state"),
        cast(account.c.cordoned, Text).label("cordoned"),
        cast(account.c.last_error, Text).label("last_error"),
        account.c.checked_at,
        account.c.created_at,
        account_region.c.region,
        account_region.c.last_complete_listing_at,
        account_region.c.listed,
        account_region.c.listing_calls,
        cast(account_region.c.listing_seconds, Float).label("listing_seconds"),
        account_region.c.cycles,
        cast(account_region.c.last_error, Text).label("region_error"),
        CATALOGUE_ERROR.label("catalogue_error"),
        case((account_region.c.blocked_until > func.now(), cast(BLOCKED, Text))).label("blocked"),
        cast(account_region.c.cordons, Text).label("cordons"),
        cast(account_region.c.service_quotas, Text).label("service_quotas"),
        account_check.c.checked_at.label("last_check_at"),
        account_check.c.failed.label("failed_checks"),
        BRAKES_OF_ACCOUNT,
    )
    .select_from(
        account.outerjoin(account_region, account_region.c.account == account.c.name).outerjoin(
            account_check, account_check.c.account == account.c.name
        )
    )
    .order_by(account.c.name, account_region.c.region)
)
"""Every account, by name, with a row for each of its regions; `region` is null for an account without regions. JSON is
text."""


SOON = text("SET LOCAL lock_timeout = '3s'")
"""First statement of a change of a brake: its answer comes soon, even where another transaction holds the row."""


def stop_launches(value: dict[str, Any] | None) -> Update:
    """Stops all launches. `value`: {by, since, note}, or None to allow launches again."""
    return update(installation).values(launches_stopped=value)


LIFT_HOLD = update(installation).values(
    hold=None, system_identifier=cluster.IDENTIFIER, timeline=cluster.TIMELINE, database_identity=cluster.DATABASE
)
"""For an operator who has checked the state: launches, expiry and garbage collection resume, and the running cluster
becomes the known one."""
