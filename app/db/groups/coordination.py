"""What the coordinator reads and writes. A transaction that writes locks the members first, then the group."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    Executable,
    Integer,
    Interval,
    Text,
    Update,
    and_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Json
from app.db.leases import idleness
from app.db.leases.transitions import WAKE
from app.db.schema import cluster
from app.db.schema.tables import attempt, installation, lease, lease_group, tenant
from app.domain.groups.groups import (
    GroupFacts,
    GroupInterconnect,
    GroupPlacement,
    GroupState,
    OnMemberLoss,
    Pool,
    PoolTry,
)
from app.domain.groups.steps import Member
from app.domain.ids import GroupId, LeaseId, TenantId
from app.domain.leases import TERMINAL, Desired, LeaseState
from app.domain.reasons import Reason, ReasonCode

_IS_DUE = lease_group.c.next_due <= func.now()
_TURN = func.row_number().over(partition_by=lease_group.c.tenant_id, order_by=lease_group.c.next_due)
_LINED_UP = select(lease_group.c.id, _TURN.label("turn")).where(_IS_DUE).subquery("lined_up")
_DUE = (
    select(lease_group.c.id, _LINED_UP.c.turn, lease_group.c.next_due)
    .join(_LINED_UP, _LINED_UP.c.id == lease_group.c.id)
    .where(_IS_DUE)
    .order_by(_LINED_UP.c.turn, lease_group.c.next_due)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(of=lease_group, skip_locked=True)
    .cte("due")
)
_TAKEN = (
    update(lease_group)
    .where(lease_group.c.id == _DUE.c.id)
    .values(next_due=func.now() + bindparam("hold", type_=Interval))
    .returning(lease_group.c.id, lease_group.c.next_due, _DUE.c.turn, _DUE.c.next_due.label("was_due"))
    .cte("taken")
)
_TAKE_DUE = select(_TAKEN.c.id, _TAKEN.c.next_due).order_by(_TAKEN.c.turn, _TAKEN.c.was_due)


def take_due(most: int, hold: timedelta) -> Bound[Executable]:
    """Up to `most` due groups as (id, next_due), which are due again after `hold` unless somebody wakes them before.

    Tenants take turns, each with its longest-due group, as in `app.db.leases.claims.claim_due`. The rows are in that order.
    A worker that dies meanwhile delays its groups by `hold`. Two workers at the same group do no harm: see `locked`.
    """
    return Bound(_TAKE_DUE, {"most": most, "hold": hold})


def rest(group_id: GroupId, seen: Any, until: Any) -> Update:
    """The group is due at `until`, unless somebody has woken it since its `next_due` was `seen`."""
    asleep = (lease_group.c.id == group_id, lease_group.c.next_due == seen)
    return update(lease_group).where(*asleep).values(next_due=until)


def postpone(group_id: GroupId, pause: timedelta) -> Update:
    """The group is due again after `pause`, even if somebody has woken it."""
    return update(lease_group).where(lease_group.c.id == group_id).values(next_due=func.now() + pause)


_ID = bindparam("group", type_=Text)
_GROUP = select(
    lease_group,
    func.now().label("now"),
    select(installation.c.hold).scalar_subquery().label("hold"),
    select(installation.c.launches_stopped).scalar_subquery().label("launches_stopped"),
    cluster.is_known().label("cluster_is_known"),
).where(lease_group.c.id == _ID)
_LOCKED_GROUP = _GROUP.with_for_update(of=lease_group)

_NEWER = lease.alias("newer")
_IS_NEWEST = not_(
    exists().where(_NEWER.c.group_id == lease.c.group_id, _NEWER.c.rank == lease.c.rank, _NEWER.c.id > lease.c.id)
)
_IS_LIVE = exists().where(attempt.c.lease_id == lease.c.id, attempt.c.ended_at.is_(None))
_MEMBERS = (
    select(
        *(lease.c[name] for name in ("id", "rank", "state", "desired", "reason", "group_pool", "group_retreat")),
        lease.c.expires_at,
        lease.c.term_in_doubt,
        lease.c.ready_at.is_not(None).label("was_ready"),
        _IS_LIVE.label("live"),
    )
    .where(lease.c.group_id == _ID, or_(lease.c.ended_at.is_(None), _IS_NEWEST))
    .order_by(lease.c.id)
)


def read(group_id: GroupId, *, locked: bool) -> Bound[AnySelect]:
    """The group's row with the database's `now`, and the brakes `hold`, `launches_stopped` and `cluster_is_known`."""
    return Bound(_LOCKED_GROUP if locked else _GROUP, {"group": group_id})


def members(group_id: GroupId) -> Bound[AnySelect]:
    """The newest lease of each rank and every lease that has not ended, by id: rows of `member_from_row`."""
    return Bound(_MEMBERS, {"group": group_id})


def group_from_row(row: Any) -> GroupFacts:
    """The domain's view of a row of `read`."""
    return GroupFacts(
        id=GroupId(row.id),
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        size=row.size,
        min_size=row.min_size,
        placement=GroupPlacement(row.placement),
        interconnect=GroupInterconnect(row.interconnect),
        form_seconds=row.form_seconds,
        on_member_loss=OnMemberLoss(row.on_member_loss),
        state=GroupState(row.state),
        ends=row.desired == Desired.END,
        reason=Reason.from_json(row.reason) if row.reason else None,
        pool=Pool.from_json(row.pool) if row.pool else None,
        pools_tried=tuple(
            PoolTry(pool=Pool.from_json(pool_try), failed_at=datetime.fromisoformat(pool_try["failed_at"]))
            for pool_try in row.pools_tried
        ),
        pool_started_at=row.pool_started_at,
        wait_until=row.wait_until,
        formed_at=row.formed_at,
    )


def member_from_row(row: Any) -> Member:
    """The domain's view of a row of `members`. Stuck: it is back in the queue, and its reason says why."""
    state, reason = LeaseState(row.state), Reason.from_json(row.reason) if row.reason else None
    waits = state is LeaseState.QUEUED and row.group_pool is not None and not row.live
    return Member(
        lease_id=LeaseId(row.id),
        rank=row.rank,
        state=state,
        should_run=row.desired == Desired.RUN and state not in TERMINAL,
        pool=Pool.from_json(row.group_pool) if row.group_pool else None,
        live=row.live,
        retreats=row.group_retreat,
        was_ready=row.was_ready,
        stuck=waits and reason is not None and reason.code is not ReasonCode.REGION_NOT_LISTED,
        reason=reason,
        expires_at=row.expires_at,
        term_in_doubt=row.term_in_doubt,
    )


def move(group_id: GroupId, values: Mapping[str, Any]) -> Update:
    """Writes `values` and increments the version. The group is due again at once. The caller has locked its row."""
    stamp = {"version": lease_group.c.version + 1, "updated_at": func.now(), "next_due": func.now()}
    return update(lease_group).where(lease_group.c.id == group_id).values({**stamp, **values})


_SHOWN = {"version": lease.c.version + 1, "updated_at": func.now()}
"""Values of a change that callers see."""
_SOME = lease.c.id == func.any(bindparam("ids", type_=ARRAY(Text)))
_WAITS_IN_QUEUE = and_(lease.c.state == str(LeaseState.QUEUED), not_(_IS_LIVE))


def _ids(some: Iterable[LeaseId]) -> dict[str, Any]:
    return {"ids": sorted(some)}


_LET_LAUNCH = (
    update(lease)
    .where(_SOME)
    .values(group_pool=bindparam("pool", type_=Json), group_retreat=False, reason=None, **_SHOWN, **WAKE)
)


def let_launch(lease_ids: Iterable[LeaseId], pool: Pool) -> Bound[Update]:
    """Lets members launch in the pool, and wakes them."""
    return Bound(_LET_LAUNCH, {"pool": pool.as_json(), **_ids(lease_ids)})


_IDLE_AFTER = idleness.after_seconds(lease, tenant.c.idle_floor)
_COUNT_IDLENESS = (
    update(lease)
    .where(_SOME, tenant.c.id == lease.c.tenant_id, _IDLE_AFTER.is_not(None))
    .values(keep_until=idleness.due_at(lease, _IDLE_AFTER, func.now()))
)


def count_idleness(lease_ids: Iterable[LeaseId]) -> Bound[Update]:
    """Members of a group that has just formed count as idle no sooner than their rule's time from now."""
    return Bound(_COUNT_IDLENESS, _ids(lease_ids))


_HOLD_BACK = update(lease).where(_SOME).values(group_pool=None)
_RETREAT_IDLE = update(lease).where(_SOME, _WAITS_IN_QUEUE).values(group_pool=None, reason=None, **_SHOWN)
_RETREAT_BUSY = update(lease).where(_SOME, not_(_WAITS_IN_QUEUE)).values(group_retreat=True, **WAKE)


def hold_back(lease_ids: Iterable[LeaseId]) -> Bound[Update]:
    """Takes the pool from members that have no VM, or whose end the group has handled."""
    return Bound(_HOLD_BACK, _ids(lease_ids))


def retreat(lease_ids: Iterable[LeaseId]) -> tuple[Bound[Update], Bound[Update]]:
    """Ends what members have in the pool: those in the queue without a VM only lose the pool. Wakes the others."""
    ids = _ids(lease_ids)
    return Bound(_RETREAT_BUSY, ids), Bound(_RETREAT_IDLE, ids)
