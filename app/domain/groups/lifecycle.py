"""The decisions about a group: from the facts about it and its members to the one next step. Total and pure.

A worker executes the step in one transaction, loads the group again and decides again, until it rests. Every change of
a member wakes the group.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from app.domain.groups.groups import GroupFacts, GroupState, OnMemberLoss
from app.domain.groups.steps import (
    Activate,
    AssignPool,
    Degrade,
    DropMissing,
    Elect,
    EndGroup,
    GroupRest,
    GroupStep,
    Member,
    ReleaseAll,
    Replace,
    Retreat,
    Shrink,
)
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.reasons import Reason, ReasonCode

_LOOK_AGAIN = timedelta(seconds=30)
"""The longest rest. Members wake their group, so a rest ends by itself only after a bug."""

_RELEASED = frozenset({ReasonCode.RELEASED_BY_USER, ReasonCode.RELEASED_BY_OPERATOR})
_NOT_REPLACED = frozenset(
    {ReasonCode.SPEND_CAP, ReasonCode.BUDGET_EXCEEDED, ReasonCode.IDLE, ReasonCode.RESERVATION_ENDED}
)
"""Reasons of a member's end that its replacement would share. See also `_View.ends_all`."""


def decide_group(group: GroupFacts, members: Sequence[Member], now: datetime) -> GroupStep:
    """The next step of a group. `members`: the newest lease of each rank, and every lease that has not ended."""
    if group.state is GroupState.ENDED:
        return GroupRest(None)
    view = _View(group, members)
    if group.ends or group.state is GroupState.RELEASING:
        return _releasing(view, now)
    if view.beyond_size:
        return Shrink(tuple(member.lease_id for member in view.beyond_size))
    return _DECIDERS[group.state](view, now)


class _View:
    """The members of a group, seen by rank."""

    def __init__(self, group: GroupFacts, members: Sequence[Member]) -> None:
        self.group = group
        self.members = members
        newest: dict[int, Member] = {}
        for member in sorted(members, key=lambda lease: lease.lease_id):
            newest[member.rank] = member
        self.newest = [member for rank, member in sorted(newest.items()) if rank < group.size]
        self.beyond_size = [member for member in members if member.rank >= group.size and member.should_run]
        self.ready = sum(is_ready(group, member) for member in self.newest)
        self.missing = [member for member in self.newest if member.should_run and not is_ready(group, member)]
        self.without_pool = tuple(
            member.lease_id
            for member in self.missing
            if member.pool is None and not member.live and not member.retreats and member.state is LeaseState.QUEUED
        )

    def ends_all(self, member: Member) -> bool:
        """Whether the reason of a member's end concerns every member.

        An expiry does so when no member that should run has a later end: each member keeps the end that was promised to it.
        """
        code = None if member.reason is None else member.reason.code
        if code is not ReasonCode.EXPIRED:
            return code is ReasonCode.TENANT_SUSPENDED
        return not any(
            other.should_run and (other.term_in_doubt or other.expires_at > member.expires_at) for other in self.members
        )

    def is_replaceable(self, member: Member) -> bool:
        """Whether a replacement of an ended member would not share the reason of its end."""
        code = None if member.reason is None else member.reason.code
        return code not in _NOT_REPLACED and not self.ends_all(member)

    def free_ranks(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """The ranks of which every lease has ended."""
        held = {member.rank for member in self.members if not member.ended}
        return tuple(rank for rank in ranks if rank not in held)


def is_ready(group: GroupFacts, member: Member) -> bool:
    """Whether the member is ready in the group's pool."""
    in_pool = group.pool is not None and member.pool == group.pool
    return in_pool and member.state is LeaseState.ACTIVE and member.should_run and not member.retreats


def _releasing(view: _View, now: datetime) -> GroupStep:
    if view.group.state is not GroupState.RELEASING or any(member.should_run for member in view.members):
        return ReleaseAll(view.group.reason or Reason(ReasonCode.RELEASED_BY_USER, "the group was released"))
    return EndGroup() if all(member.ended for member in view.members) else GroupRest(now + _LOOK_AGAIN)


def _queued(view: _View, now: datetime) -> GroupStep:
    cause = _cause_before_formed(view)
    if cause is not None:
        return ReleaseAll(cause)
    ranks = view.free_ranks([member.rank for member in view.newest if not member.should_run])
    if ranks:
        return Replace(ranks, needed=True)
    held = any(not member.ended and (member.live or member.retreats) for member in view.members)
    if held or any(not member.should_run for member in view.newest):
        return GroupRest(now + _LOOK_AGAIN)
    return Elect()


def _forming(view: _View, now: datetime) -> GroupStep:
    group = view.group
    cause = _cause_before_formed(view)
    if cause is not None:
        return ReleaseAll(cause)
    if view.ready == group.size:
        return Activate()
    if group.forms_until is None or now >= group.forms_until or _nothing_comes(view):
        return _end_forming(view)
    if view.without_pool:
        return AssignPool(view.without_pool)
    ranks = view.free_ranks([member.rank for member in view.newest if not member.should_run])
    if ranks:
        return Replace(ranks, needed=False)
    return GroupRest(min(group.forms_until, now + _LOOK_AGAIN))


def _nothing_comes(view: _View) -> bool:
    """Whether no member has a VM or is about to get one: the group then loses nothing by leaving the pool early."""
    nothing_live = all(not member.live for member in view.members)
    return bool(view.missing) and view.ready == 0 and nothing_live and all(member.stuck for member in view.missing)


def _end_forming(view: _View) -> GroupStep:
    group = view.group
    if view.ready >= group.min_size:
        return DropMissing(tuple(member.lease_id for member in view.missing), view.ready)
    return Retreat(view.ready, pool_failed(group, view.ready))


def pool_failed(group: GroupFacts, ready: int) -> Reason:
    """The reason of a pool that did not form the group."""
    text = f"{ready} of {group.size} members were ready within {group.form_seconds} s, and {group.min_size} are needed"
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, text)


def _cause_before_formed(view: _View) -> Reason | None:
    """Why a group that is not formed yet ends with the end of a member. Any other ended member is replaced."""
    ended = [member for member in view.newest if not member.should_run and member.reason is not None]
    for member in ended:
        assert member.reason is not None
        by_wish = member.reason.code in _RELEASED and view.group.on_member_loss is OnMemberLoss.END
        if by_wish or not view.is_replaceable(member):
            return member.reason
    return None


def _formed(view: _View, now: datetime) -> GroupStep:
    lost = [member for member in view.newest if _is_lost(member)]
    if lost:
        return _after_loss(view, lost)
    if view.without_pool:
        return AssignPool(view.without_pool)
    awaited = [member.rank for member in view.newest if _is_replaced(view, member)]
    if view.ready + len(view.missing) + len(awaited) < view.group.min_size:
        return ReleaseAll(too_few(view.group, view.ready))
    ranks = view.free_ranks(awaited)
    if ranks:
        return Replace(ranks, needed=view.ready + len(view.missing) < view.group.min_size)
    return _settled(view, now)


def _settled(view: _View, now: datetime) -> GroupStep:
    group = view.group
    active = group.state is GroupState.ACTIVE
    if view.ready == group.size and not active:
        return Activate()
    grows = bool(view.missing)
    if active and (view.ready < group.min_size or (view.ready < group.size and not grows)):
        return Degrade((), view.ready, too_few(group, view.ready))
    return GroupRest(now + _LOOK_AGAIN)


def too_few(group: GroupFacts, ready: int) -> Reason:
    """The reason of a group that misses members."""
    text = f"{ready} of {group.size} members are left, and {group.min_size} are needed"
    return Reason(ReasonCode.GROUP_MEMBER_LOST, text)


def _is_lost(member: Member) -> bool:
    """Whether a member's end, or its return to the queue, is not handled yet."""
    if not member.should_run:
        return member.pool is not None
    returned = member.state is LeaseState.QUEUED and member.pool is None and not member.retreats
    return returned and member.was_ready


def _is_replaced(view: _View, member: Member) -> bool:
    """Whether an ended member gets a successor. A member that was never ready was given up, not lost."""
    code = None if member.reason is None else member.reason.code
    replaced = not member.should_run and member.was_ready and may_be_replaced(view.group.on_member_loss, code)
    return replaced and view.is_replaceable(member)


def may_be_replaced(policy: OnMemberLoss, code: ReasonCode | None) -> bool:
    """Whether a formed group replaces an ended member by itself. `code`: of the member's reason."""
    return policy is OnMemberLoss.REPLACE and code not in {ReasonCode.GROUP_INCOMPLETE, ReasonCode.GROUP_SHRUNK}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHolder:
    """The newest lease of a rank. `leaves`: its end is requested, and the lease or the group has not finished it.

    `replaced`: the group replaces it by itself.
    """

    lease_id: LeaseId
    rank: int
    leaves: bool
    ended: bool
    replaced: bool


class RankHeldError(Exception):
    """A former member, which nobody replaces, still has a rank that is to be filled."""

    def __init__(self, holder: RankHolder) -> None:
        super().__init__(holder)
        self.holder = holder


def ranks_to_fill(holders: Iterable[RankHolder], *, size: int, new_size: int, formed: bool) -> list[int]:
    """The ranks below `new_size` that get a new member when a group of `size` grows, in order.

    Ranks of lost members come first. A group that is not `formed` replaces its members by itself. Raises RankHeldError.
    """
    taken = set() if formed else set(range(size))
    for holder in holders:
        if holder.rank >= new_size:
            continue
        if holder.rank >= size:
            raise RankHeldError(holder)
        if formed and holder.leaves and not holder.replaced:
            raise RankHeldError(holder)
        if holder.leaves or not holder.ended:
            taken.add(holder.rank)
    return [rank for rank in range(new_size) if rank not in taken]


def _after_loss(view: _View, lost: Sequence[Member]) -> GroupStep:
    for member in lost:
        if view.ends_all(member):
            assert member.reason is not None
            return ReleaseAll(member.reason, lost=member)
        if _ends_group(view, member):
            return ReleaseAll(member_lost(member), lost=member)
    return Degrade(tuple(lost), view.ready, member_lost(lost[0]))


def _ends_group(view: _View, member: Member) -> bool:
    """Whether the loss of a member ends the group by the group's policy."""
    policy = view.group.on_member_loss
    replaced = policy is OnMemberLoss.REPLACE and (member.should_run or view.is_replaceable(member))
    return member.was_ready and not replaced and policy is not OnMemberLoss.KEEP


def member_lost(member: Member) -> Reason:
    """The reason of a group that lost a member."""
    if member.reason is None:
        return Reason(ReasonCode.GROUP_MEMBER_LOST, f"member {member.rank} was lost")
    text = f"member {member.rank} was lost: {member.reason.message}"
    return Reason(ReasonCode.GROUP_MEMBER_LOST, text, member.reason.origin)


_DECIDERS: Mapping[GroupState, Callable[[_View, datetime], GroupStep]] = MappingProxyType(
    {
        GroupState.QUEUED: _queued,
        GroupState.FORMING: _forming,
        GroupState.ACTIVE: _formed,
        GroupState.DEGRADED: _formed,
    }
)
