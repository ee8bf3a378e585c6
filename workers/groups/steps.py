"""What each step of a group writes. The caller has locked the members and the group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Connection, func

from app.db.events.events import NewEvent, append
from app.db.groups import coordination
from app.db.groups.members import forget_scripts
from app.db.leases.transitions import request_end
from app.domain.event_parts import EventData, EventReason
from app.domain.groups.events import (
    EventPool,
    GroupActive,
    GroupDegraded,
    GroupEnded,
    GroupForming,
    GroupMemberLost,
    GroupPoolFailed,
    GroupReleasing,
)
from app.domain.groups.groups import GroupFacts, GroupState, Pool
from app.domain.groups.steps import (
    Activate,
    AssignPool,
    Degrade,
    DropMissing,
    Elect,
    EndGroup,
    GroupStep,
    Member,
    ReleaseAll,
    Replace,
    Retreat,
    Shrink,
)
from app.domain.ids import LeaseId
from app.domain.leases import Desired
from app.domain.reasons import Reason, ReasonCode
from workers.groups.election import Election
from workers.groups.replacements import NoRoomError, add_members
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_NO_ROOM_PAUSE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class GroupStepContext:
    """A group and its members, as loaded under their locks at `now` (the database's clock)."""

    runtime: Runtime
    connection: Connection
    group: GroupFacts
    members: Sequence[Member]
    now: datetime
    election: Election | None
    """Of the step Elect."""

    @property
    def pool(self) -> Pool:
        """The group's pool, for steps that require one. Raises ValueError without a pool."""
        if self.group.pool is None:
            msg = f"group {self.group.id} is {self.group.state} without a pool"
            raise ValueError(msg)
        return self.group.pool

    def move(self, values: Mapping[str, Any], *events: EventData) -> None:
        """Writes the group's row and appends events."""
        self.connection.execute(coordination.move(self.group.id, values))
        for data in events:
            self.connection.execute(append(self.group.tenant_id, NewEvent(data)))

    def end_members(self, lease_ids: Iterable[LeaseId], reason: Reason) -> None:
        """Requests the end of members."""
        for lease_id in sorted(lease_ids):
            self.connection.execute(*request_end(lease_id, reason, None))

    def count_idleness(self, lease_ids: Iterable[LeaseId]) -> None:
        """Idleness of members counts from now: the group has just formed."""
        self.connection.execute(*coordination.count_idleness(lease_ids))

    def set_pool_of(self, lease_ids: Iterable[LeaseId], pool: Pool | None) -> None:
        """Lets members launch in the pool, or takes it from those that are handled."""
        some = list(lease_ids)
        if some:
            self.connection.execute(
                *(coordination.hold_back(some) if pool is None else coordination.let_launch(some, pool))
            )


def execute(ctx: GroupStepContext, step: GroupStep) -> datetime | None:
    """Writes one step. Returns when to try again a step that cannot be made now."""
    return _STEPS[type(step)](ctx, step)


def _begin_pool(ctx: GroupStepContext, _step: Elect) -> None:
    election = ctx.election
    assert election is not None
    if election.pool is None:
        assert election.gave_up is not None
        _release_for(ctx, election.gave_up)
        return
    pool = election.pool
    values = {
        "state": str(GroupState.FORMING),
        "pool": pool.as_json(),
        "pool_started_at": func.now(),
        "reason": None,
    }
    ctx.move(values, GroupForming(group_id=ctx.group.id, pool=EventPool.of(pool)))
    ctx.set_pool_of((member.lease_id for member in ctx.members if member.should_run), pool)


def _assign_pool(ctx: GroupStepContext, step: AssignPool) -> None:
    ctx.set_pool_of(step.lease_ids, ctx.pool)


def _activate(ctx: GroupStepContext, _step: Activate) -> None:
    values = {
        "state": str(GroupState.ACTIVE),
        "reason": None,
        "formed_at": ctx.group.formed_at or func.now(),
    }
    ctx.move(values, GroupActive(group_id=ctx.group.id, size=ctx.group.size))
    if ctx.group.formed_at is None:
        ctx.count_idleness(member.lease_id for member in ctx.members if member.should_run)


def _drop(ctx: GroupStepContext, step: DropMissing) -> None:
    text = f"{step.ready} of {ctx.group.size} members were ready within {ctx.group.form_seconds} s; the group goes on with them"
    reason = Reason(ReasonCode.GROUP_INCOMPLETE, text)
    ctx.end_members(step.lease_ids, reason)
    ctx.set_pool_of(step.lease_ids, None)
    ctx.count_idleness(
        member.lease_id for member in ctx.members if member.should_run and member.lease_id not in step.lease_ids
    )
    _enter_degraded(ctx, step.ready, reason, formed_at=func.now())


def _enter_degraded(ctx: GroupStepContext, ready: int, reason: Reason, *events: EventData, **values: Any) -> None:
    event = GroupDegraded(group_id=ctx.group.id, size=ctx.group.size, ready=ready, reason=EventReason.of(reason))
    state = {"state": str(GroupState.DEGRADED), "reason": reason.as_json()}
    ctx.move({**state, **values}, *events, *(() if ctx.group.state is GroupState.DEGRADED else (event,)))


def _retreat(ctx: GroupStepContext, step: Retreat) -> None:
    pool = ctx.pool
    tried = [
        {**attempt.pool.as_json(), "failed_at": attempt.failed_at.isoformat()} for attempt in ctx.group.pools_tried
    ]
    values = {
        "state": str(GroupState.QUEUED),
        "pool": None,
        "pool_started_at": None,
        "pools_tried": [*tried, {**pool.as_json(), "failed_at": ctx.now.isoformat()}],
        "reason": step.reason.as_json(),
    }
    event = GroupPoolFailed(
        group_id=ctx.group.id, pool=EventPool.of(pool), ready=step.ready, reason=EventReason.of(step.reason)
    )
    ctx.move(values, event)
    for statement in coordination.retreat(member.lease_id for member in ctx.members if member.should_run):
        ctx.connection.execute(*statement)
    ctx.set_pool_of((member.lease_id for member in ctx.members if not member.should_run), None)


def _lost(ctx: GroupStepContext, member: Member) -> GroupMemberLost:
    return GroupMemberLost(
        group_id=ctx.group.id,
        lease_id=member.lease_id,
        rank=member.rank,
        reason=None if member.reason is None else EventReason.of(member.reason),
    )


def _degrade(ctx: GroupStepContext, step: Degrade) -> None:
    lost = [_lost(ctx, member) for member in step.lost]
    ctx.set_pool_of((member.lease_id for member in step.lost if member.should_run), ctx.pool)
    ctx.set_pool_of((member.lease_id for member in step.lost if not member.should_run), None)
    _enter_degraded(ctx, step.ready, step.reason, *lost)


def _shrink(ctx: GroupStepContext, step: Shrink) -> None:
    reason = Reason(ReasonCode.GROUP_SHRUNK, f"the group was made smaller: {ctx.group.size} members")
    ctx.end_members(step.lease_ids, reason)


def _replace(ctx: GroupStepContext, step: Replace) -> datetime | None:
    try:
        with ctx.connection.begin_nested():
            add_members(ctx.connection, ctx.group, step.ranks)
    except NoRoomError as error:
        if not step.needed:
            log.info("members are not replaced", ranks=step.ranks, why=str(error))
            return ctx.now + _NO_ROOM_PAUSE
        _release_for(ctx, error.reason)
    return None


def _release(ctx: GroupStepContext, step: ReleaseAll) -> None:
    _release_for(ctx, step.reason, *(() if step.lost is None else (_lost(ctx, step.lost),)))


def _release_for(ctx: GroupStepContext, reason: Reason, *events: EventData) -> None:
    if ctx.group.state is not GroupState.RELEASING:
        values = {
            "desired": str(Desired.END),
            "state": str(GroupState.RELEASING),
            "reason": reason.as_json(),
            "release_requested_at": func.now(),
        }
        ctx.move(values, *events, GroupReleasing(group_id=ctx.group.id, reason=EventReason.of(reason)))
    ctx.end_members((member.lease_id for member in ctx.members if member.should_run), reason)


def _end(ctx: GroupStepContext, _step: EndGroup) -> None:
    reason = None if ctx.group.reason is None else EventReason.of(ctx.group.reason)
    values = {"state": str(GroupState.ENDED), "ended_at": func.now(), "next_due": None}
    ctx.move(values, GroupEnded(group_id=ctx.group.id, reason=reason))
    ctx.connection.execute(*forget_scripts(ctx.group.id))


_STEPS: Mapping[type[GroupStep], Callable[[GroupStepContext, Any], datetime | None]] = {
    Elect: _begin_pool,
    AssignPool: _assign_pool,
    Activate: _activate,
    DropMissing: _drop,
    Retreat: _retreat,
    Degrade: _degrade,
    Shrink: _shrink,
    Replace: _replace,
    ReleaseAll: _release,
    EndGroup: _end,
}
