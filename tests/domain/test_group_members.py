"""`decide` for members of groups, over every combination of facts about their leases."""

from collections.abc import Iterator
from dataclasses import replace

from app.domain.groups import Membership, Pool
from app.domain.ids import GroupId
from app.domain.leases import AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.lifecycle import (
    BeginRelease,
    CloseAttempt,
    Look,
    Place,
    Requeue,
    Rest,
    Settle,
    Terminate,
    Verify,
    decide,
)
from app.domain.offerings import Market
from app.domain.reasons import ReasonCode
from tests.domain.cases import NOW, TIMING, leases

POOL = Pool(account="a", region="r", zone="z", instance_type="t", market=Market.ON_DEMAND)
RETREATS = Membership(group_id=GroupId("group_x"), rank=0, pool=None, retreats=True, forming=True, replaces=True)
WAITS = replace(RETREATS, retreats=False)
FORMED = replace(WAITS, pool=POOL, forming=False)


def wanted(member: Membership) -> Iterator[Lease]:
    for one in leases():
        if not one.terminal and one.desired is Desired.RUN:
            yield replace(one, membership=member)


def test_a_member_that_retreats_only_ends_its_vm_and_returns_to_the_queue() -> None:
    allowed = (Rest, CloseAttempt, Settle, Look, Terminate, Verify, Requeue, BeginRelease)
    for one in wanted(RETREATS):
        step = decide(one, NOW, TIMING)
        assert isinstance(step, allowed), (one, step)
        if isinstance(step, Requeue):
            assert one.attempt is None or not one.attempt.live, one
        if isinstance(step, BeginRelease):
            assert step.reason.code is ReasonCode.EXPIRED, (one, step)


def test_a_member_without_a_pool_is_not_placed() -> None:
    for one in wanted(WAITS):
        step = decide(one, NOW, TIMING)
        assert not isinstance(step, Place), one
        if one.state is LeaseState.QUEUED and not isinstance(step, BeginRelease):
            assert isinstance(step, Rest), one


def test_the_loss_of_a_formed_members_vm_ends_the_member_unless_it_is_replaced() -> None:
    lost = 0
    for replaces in (False, True):
        for one in wanted(replace(FORMED, replaces=replaces)):
            attempt = one.attempt
            if one.state is not LeaseState.ACTIVE or attempt is None or attempt.state is not AttemptState.KNOWN:
                continue
            if attempt.vm_state is VmState.GONE and not one.is_expired(NOW):
                lost += 1
                ends = isinstance(decide(one, NOW, TIMING), BeginRelease)
                assert ends is not replaces, one
    assert lost > 0
