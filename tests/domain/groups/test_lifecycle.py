"""Decisions about groups, carried out on a model of the members whose leases come and go at random."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.groups.groups import GroupFacts, GroupInterconnect, GroupPlacement, GroupState, OnMemberLoss, Pool
from app.domain.groups.lifecycle import RankHeldError, RankHolder, decide_group, ranks_to_fill
from app.domain.groups.steps import (
    Activate,
    AssignPool,
    Degrade,
    DropMissing,
    Elect,
    EndGroup,
    GroupRest,
    Member,
    ReleaseAll,
    Replace,
    Retreat,
    Shrink,
)
from app.domain.ids import GroupId, LeaseId, TenantId
from app.domain.leases import LeaseState
from app.domain.offerings import Market
from app.domain.reasons import Reason, ReasonCode

START = datetime(2026, 1, 1, tzinfo=UTC)
POOLS = [
    Pool(account="a", region="r", zone=zone, instance_type="t", market=Market.ON_DEMAND) for zone in ("za", "zb", "zc")
]
TERM = timedelta(seconds=200)
LOST = Reason(ReasonCode.INSTANCE_LOST, "gone")
EXPIRED = Reason(ReasonCode.EXPIRED, "over")
FORMED = {GroupState.ACTIVE, GroupState.DEGRADED}


class World:
    """A group and its members. Each action is one transaction of a worker, or something that happens to a VM."""

    def __init__(self, size: int, min_size: int, on_member_loss: OnMemberLoss, pools: int) -> None:
        self.now = START
        self.left = POOLS[:pools]
        self.count = 0
        self.group = GroupFacts(
            id=GroupId("group_0"),
            tenant_id=TenantId("tenant_0"),
            name="g",
            size=size,
            min_size=min_size,
            placement=GroupPlacement.SAME_ZONE,
            interconnect=GroupInterconnect.NONE,
            form_seconds=100,
            on_member_loss=on_member_loss,
            state=GroupState.QUEUED,
            ends=False,
            reason=None,
            pool=None,
            pools_tried=(),
            pool_started_at=None,
            wait_until=START,
            formed_at=None,
        )
        self.members: list[Member] = []
        self.members = [self.new(rank) for rank in range(size)]

    def new(self, rank: int, pool: Pool | None = None) -> Member:
        self.count += 1
        return Member(
            lease_id=LeaseId(f"lease_{self.count:03}"),
            rank=rank,
            state=LeaseState.QUEUED,
            should_run=True,
            pool=pool,
            live=False,
            retreats=False,
            was_ready=False,
            stuck=False,
            reason=None,
            expires_at=self.last_end(),
        )

    def last_end(self) -> datetime:
        """The latest expiry of a member: that of a member that is added."""
        return max((one.expires_at for one in self.members), default=START + TERM)

    def change(self, lease_id: LeaseId, **changes: Any) -> None:
        self.members = [replace(one, **changes) if one.lease_id == lease_id else one for one in self.members]

    def seen(self) -> list[Member]:
        """What the coordinator loads."""
        newest = {one.rank: one.lease_id for one in self.members}
        return [one for one in self.members if not one.ended or newest[one.rank] == one.lease_id]

    # --- the coordinator ---------------------------------------------------------------------------------

    def coordinate(self) -> None:
        """Until the group rests. A step that is decided again at once makes no progress."""
        before, step = None, None
        for _ in range(20):
            step = decide_group(self.group, self.seen(), self.now)
            if isinstance(step, GroupRest):
                return
            assert (step, self.group, self.members) != before
            before = (step, self.group, self.members)
            self.carry_out(step)
        raise AssertionError(f"no rest: {step}")

    def carry_out(self, step: Any) -> None:  # noqa: C901 - one case for each step
        match step:
            case Elect():
                self.elect()
            case AssignPool(lease_ids):
                self.let_launch(lease_ids)
            case Activate():
                assert self.ready() == self.group.size >= self.group.min_size
                self.group = replace(self.group, state=GroupState.ACTIVE, reason=None, formed_at=self.now)
            case DropMissing(lease_ids, ready):
                assert ready == self.ready() >= self.group.min_size
                self.end(lease_ids, Reason(ReasonCode.GROUP_INCOMPLETE, "late"))
                self.handled(lease_ids)
                self.group = replace(self.group, state=GroupState.DEGRADED, formed_at=self.now)
            case Retreat():
                self.retreat()
            case Degrade(lost, ready):
                assert ready == self.ready()
                ends = self.group.on_member_loss is OnMemberLoss.END
                assert not (ends and any(one.was_ready and one.reason == LOST for one in lost))
                self.let_launch([one.lease_id for one in lost if one.should_run])
                self.handled([one.lease_id for one in lost if not one.should_run])
                self.group = replace(self.group, state=GroupState.DEGRADED)
            case Shrink(lease_ids):
                self.end(lease_ids, Reason(ReasonCode.GROUP_SHRUNK, "smaller"))
            case Replace(ranks):
                held = {one.rank for one in self.members if not one.ended}
                assert not held & set(ranks), "two leases at one rank"
                self.members += [self.new(rank, self.group.pool) for rank in ranks]
            case ReleaseAll(reason):
                later = [one for one in self.members if one.should_run and one.expires_at > self.now]
                assert reason.code is not ReasonCode.EXPIRED or not later, "ended before its time"
                if self.formed and reason.code is ReasonCode.GROUP_MEMBER_LOST and self.keeps:
                    assert sum(one.should_run for one in self.members) < self.group.min_size, "enough are left"
                self.group = replace(self.group, state=GroupState.RELEASING, ends=True, reason=reason)
                self.end([one.lease_id for one in self.members if one.should_run], reason)
            case EndGroup():
                assert all(one.ended for one in self.members)
                self.group = replace(self.group, state=GroupState.ENDED)

    def elect(self) -> None:
        assert not any(one.live or one.retreats for one in self.members), "a part is held while another pool is tried"
        if not self.left:
            self.carry_out(ReleaseAll(Reason(ReasonCode.CAPACITY_EXHAUSTED, "no pool")))
            return
        pool = self.left.pop()
        self.group = replace(self.group, state=GroupState.FORMING, pool=pool, pool_started_at=self.now)
        self.let_launch([one.lease_id for one in self.members if one.should_run])

    def let_launch(self, lease_ids: Any) -> None:
        for lease_id in lease_ids:
            self.change(lease_id, pool=self.group.pool, reason=None, stuck=False)

    def handled(self, lease_ids: Any) -> None:
        for lease_id in lease_ids:
            self.change(lease_id, pool=None)

    def end(self, lease_ids: Any, reason: Reason) -> None:
        for lease_id in lease_ids:
            self.change(lease_id, should_run=False, state=LeaseState.RELEASING, reason=reason)

    def retreat(self) -> None:
        self.group = replace(self.group, state=GroupState.QUEUED, pool=None, pool_started_at=None)
        for one in self.members:
            if not one.should_run:
                self.change(one.lease_id, pool=None)
            elif one.state is LeaseState.QUEUED and not one.live:
                self.change(one.lease_id, pool=None, reason=None, stuck=False)
            else:
                self.change(one.lease_id, retreats=True)

    def ready(self) -> int:
        pool = self.group.pool
        return sum(
            one.state is LeaseState.ACTIVE and one.should_run and one.pool == pool and one.rank < self.group.size
            for one in self.members
        )

    # --- what happens ------------------------------------------------------------------------------------

    def act(self, action: str, which: int) -> None:
        """One thing happens to one member, where it can."""
        one = self.members[which % len(self.members)]
        if one.ended:
            return
        if one.retreats or not one.should_run:
            self.vm_ends(one)
        elif action == "fail":
            self.end([one.lease_id], LOST)
        elif action == "launch" and one.state is LeaseState.QUEUED and one.pool is not None:
            self.change(one.lease_id, state=LeaseState.PROVISIONING, live=True, stuck=False)
        elif action == "refuse" and one.state is LeaseState.PROVISIONING:
            self.change(one.lease_id, state=LeaseState.QUEUED, live=False, stuck=True, reason=LOST)
        elif action == "ready" and one.live:
            self.change(one.lease_id, state=LeaseState.ACTIVE, was_ready=True)
        elif action == "requeue" and one.live and (not self.formed or self.replaces):
            self.change(one.lease_id, state=LeaseState.QUEUED, live=False, pool=None)

    def expire(self) -> None:
        """A worker ends the members whose time is over."""
        self.end([one.lease_id for one in self.members if one.should_run and one.expires_at <= self.now], EXPIRED)

    def lengthen(self, seconds: list[int]) -> None:
        """The members get terms of their own."""
        for one, more in zip(self.members, seconds, strict=False):
            self.change(one.lease_id, expires_at=one.expires_at + timedelta(seconds=more))

    def extend(self, which: int) -> None:
        """One member is extended, or all of them."""
        running = [one for one in self.members if one.should_run and one.expires_at > self.now]
        chosen = running if which % 4 == 0 else running[which % len(running) :][:1] if running else []
        until = max((one.expires_at for one in chosen), default=START) + timedelta(seconds=10 * which)
        for one in chosen:
            self.change(one.lease_id, expires_at=until)

    def vm_ends(self, one: Member) -> None:
        if one.live:
            self.change(one.lease_id, live=False)
        elif one.retreats and one.should_run:
            self.change(one.lease_id, retreats=False, pool=None, state=LeaseState.QUEUED, stuck=False)
        else:
            state = LeaseState.RELEASED if one.was_ready else LeaseState.FAILED
            self.change(one.lease_id, state=state, retreats=False)

    def resize(self, size: int) -> None:
        """What PATCH does."""
        if self.group.ends:
            return
        if any(one.rank >= self.group.size and not one.ended for one in self.members):
            return
        for one in self.members:
            if one.rank >= size and one.should_run:
                self.end([one.lease_id], Reason(ReasonCode.GROUP_SHRUNK, "smaller"))
        self.members += [self.new(rank, self.group.pool) for rank in range(self.group.size, size)]
        self.group = replace(self.group, size=size, min_size=min(size, self.group.min_size))

    @property
    def formed(self) -> bool:
        return self.group.state in FORMED

    @property
    def keeps(self) -> bool:
        return self.group.on_member_loss is OnMemberLoss.KEEP

    @property
    def replaces(self) -> bool:
        return self.group.on_member_loss is OnMemberLoss.REPLACE

    def check(self) -> None:
        live = {one.rank: one for one in self.members if not one.ended}
        assert len(live) == sum(not one.ended for one in self.members), "two leases at one rank"
        if self.group.state is GroupState.ACTIVE:
            assert self.ready() + sum(one.should_run and one.rank < self.group.size for one in self.members) >= (
                self.group.min_size
            )
        if self.group.state is GroupState.ENDED:
            assert all(one.ended for one in self.members)


ACTIONS = st.tuples(
    st.sampled_from(
        ["launch", "ready", "refuse", "fail", "fail", "requeue", "wait", "wait", "extend", "resize", "delete"]
    ),
    st.integers(0, 40),
)


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from(list(OnMemberLoss)),
    st.integers(0, 3),
    st.integers(0, 5),
    st.lists(st.sampled_from([0, 0, 150, 400]), min_size=5, max_size=5),
    st.lists(ACTIONS, max_size=40),
)
@settings(max_examples=300)
def test_no_part_is_held_and_every_group_comes_to_rest(
    size: int,
    least: int,
    loss: OnMemberLoss,
    pools: int,
    soon: int,
    longer: list[int],
    actions: list[tuple[str, int]],
) -> None:
    """`soon`: members that are ready before anything else happens. `longer`: seconds by which each was extended."""
    world = World(size, min(size, least), loss, pools)
    world.lengthen(longer)
    world.coordinate()
    for which in range(min(soon, size)):
        for action in ("launch", "ready"):
            world.act(action, which)
            world.coordinate()
    for action, which in actions:
        match action:
            case "wait":
                world.now += timedelta(seconds=10 * which)
                world.expire()
            case "extend":
                world.extend(which)
            case "resize":
                world.resize(1 + which % 6)
            case "delete" if which == 0:
                world.group = replace(world.group, ends=True)
            case _:
                world.act(action, which)
        world.coordinate()
        world.check()
    come_to_rest(world)


def come_to_rest(world: World) -> None:
    """From here on every VM that is asked for starts, and every VM that is given up ends."""
    for _ in range(40):
        for which in range(len(world.members)):
            for action in ("launch", "ready"):
                world.act(action, which)
        world.coordinate()
        world.check()
    group, live = world.group, [one for one in world.members if not one.ended]
    if group.state is GroupState.ACTIVE:
        assert sorted(one.rank for one in live) == list(range(group.size))
        assert world.ready() == group.size
    elif group.state is GroupState.DEGRADED:
        assert group.min_size <= world.ready() < group.size
    else:
        assert group.state is GroupState.ENDED
        assert not live


def formed(loss: OnMemberLoss, *, least: int = 1) -> World:
    """An active group of three, of which the first two members were extended, at the third one's expiry."""
    world = World(3, least, loss, 1)
    world.coordinate()
    for which in range(3):
        for action in ("launch", "ready"):
            world.act(action, which)
    world.coordinate()
    assert world.group.state is GroupState.ACTIVE
    for one in world.members[:2]:
        world.change(one.lease_id, expires_at=one.expires_at + timedelta(hours=6))
    world.now += TERM
    world.expire()
    world.coordinate()
    return world


def test_keep_extended_members_go_on_without_one_that_expired() -> None:
    world = formed(OnMemberLoss.KEEP)
    assert world.group.state is GroupState.DEGRADED
    assert [one.should_run for one in world.members] == [True, True, False]
    world.now += timedelta(hours=6)
    world.expire()
    world.coordinate()
    assert (world.group.ends, world.group.reason) == (True, EXPIRED)


def test_replace_an_expired_member_gets_a_successor_with_the_latest_expiry() -> None:
    world = formed(OnMemberLoss.REPLACE)
    for _ in range(2):
        world.act("ready", 2)
        world.coordinate()
    assert [(one.rank, one.should_run) for one in world.members] == [(0, True), (1, True), (2, False), (2, True)]
    assert world.members[3].expires_at == world.members[0].expires_at


def test_end_one_members_expiry_ends_the_group_as_a_loss_and_not_as_the_others_expiry() -> None:
    world = formed(OnMemberLoss.END)
    assert world.group.ends
    assert [one.reason and one.reason.code for one in world.members] == [
        ReasonCode.GROUP_MEMBER_LOST,
        ReasonCode.GROUP_MEMBER_LOST,
        ReasonCode.EXPIRED,
    ]


def test_too_few_members_that_were_extended_end_as_a_loss() -> None:
    world = formed(OnMemberLoss.KEEP, least=3)
    assert world.group.ends
    assert world.group.reason is not None
    assert world.group.reason.code is ReasonCode.GROUP_MEMBER_LOST


def holder(rank: int, *, leaves: bool = False, ended: bool = False, replaced: bool = False) -> RankHolder:
    return RankHolder(lease_id=LeaseId(f"lease_{rank}"), rank=rank, leaves=leaves, ended=ended, replaced=replaced)


def test_a_larger_group_fills_the_ranks_of_lost_members_first() -> None:
    members = [holder(0), holder(1, ended=True), holder(2, leaves=True, replaced=True)]
    assert ranks_to_fill(members, size=3, new_size=5, formed=True) == [1, 3, 4]
    assert ranks_to_fill(members, size=3, new_size=5, formed=False) == [3, 4], "it replaces its members by itself"


@pytest.mark.parametrize("held", [holder(1, leaves=True), holder(2), holder(2, leaves=True, replaced=True)])
def test_a_former_member_keeps_its_rank_until_it_has_ended(held: RankHolder) -> None:
    with pytest.raises(RankHeldError) as raised:
        ranks_to_fill([holder(0), held], size=2, new_size=3, formed=True)
    assert raised.value.holder == held
