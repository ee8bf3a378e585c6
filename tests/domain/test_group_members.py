"""`decide` for members of groups, over every combination of facts about their leases."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.domain.groups.groups import Membership, Pool
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


@pytest.fixture(scope="module")
def wanted() -> list[Lease]:
    """Every lease that is still wanted, of no group yet: making them takes longer than deciding about them."""
    return [one for one in leases() if not one.terminal and one.desired is Desired.RUN]


def members(wanted: list[Lease], member: Membership) -> Iterator[Lease]:
    for one in wanted:
        yield replace(one, membership=member)


def test_a_member_that_retreats_only_ends_its_vm_and_returns_to_the_queue(wanted: list[Lease]) -> None:
    allowed = (Rest, CloseAttempt, Settle, Look, Terminate, Verify, Requeue, BeginRelease)
    for one in members(wanted, RETREATS):
        step = decide(one, NOW, TIMING)
        assert isinstance(step, allowed), (one, step)
        if isinstance(step, Requeue):
            assert one.attempt is None or not one.attempt.live, one
        if isinstance(step, BeginRelease):
            assert step.reason.code is ReasonCode.EXPIRED, (one, step)


def test_a_member_without_a_pool_is_not_placed(wanted: list[Lease]) -> None:
    for one in members(wanted, WAITS):
        step = decide(one, NOW, TIMING)
        assert not isinstance(step, Place), one
        if one.state is LeaseState.QUEUED and not isinstance(step, BeginRelease):
            assert isinstance(step, Rest), one


def test_the_loss_of_a_formed_members_vm_ends_the_member_unless_it_is_replaced(wanted: list[Lease]) -> None:
    gone = [
        one
        for one in wanted
        if one.state is LeaseState.ACTIVE
        and one.attempt is not None
        and (one.attempt.state, one.attempt.vm_state) == (AttemptState.KNOWN, VmState.GONE)
        and not one.is_expired(NOW)
    ]
    assert gone
    for replaces in (False, True):
        for one in members(gone, replace(FORMED, replaces=replaces)):
            ends = isinstance(decide(one, NOW, TIMING), BeginRelease)
            assert ends is not replaces, one
