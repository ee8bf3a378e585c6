"""Stories of leases on simulated time: whatever the cloud answers, every claim rests and every lease ends, with no VM left."""

from datetime import timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from app.domain.lease_requests import OnInterruption
from app.domain.leases import Desired, LeaseState
from tests.domain.world import World

TROUBLED = 60
CALM = 400
stories = st.integers(min_value=0, max_value=2**32).map(lambda seed: World.new(Random(seed)))


def turn(world: World) -> None:
    """One claim, then time goes on to when the lease is due again (or an observer wakes it), and the cloud moves."""
    until = world.claim()
    pause = timedelta(seconds=world.random.choice([1, 30, 130]))
    wake = world.now + pause
    assert until is None or until > world.now or world.lease.terminal
    world.now = wake if until is None or world.random.random() < 0.5 else min(until, wake)
    world.happen()


@given(stories)
def test_a_lease_ends_with_nothing_left_whatever_the_cloud_did_before(world: World) -> None:
    for _ in range(world.random.randint(0, TROUBLED)):
        turn(world)
    world.calm = True
    for _ in range(CALM):
        turn(world)
        if world.lease.terminal:
            break
    assert world.lease.terminal, (world.lease, world.steps[-20:])
    assert world.alive == []


@given(stories)
def test_a_lease_that_its_owner_ends_is_gone_soon(world: World) -> None:
    for _ in range(world.random.randint(0, TROUBLED)):
        turn(world)
    world.end()
    world.calm = True
    asked_at = world.now
    while not world.lease.terminal:
        turn(world)
        assert world.now - asked_at < timedelta(minutes=25), world.steps[-20:]
    assert world.alive == []


@given(stories)
def test_there_is_never_a_second_vm(world: World) -> None:
    for _ in range(TROUBLED):
        turn(world)
        assert len(world.alive) <= 1


@given(stories)
def test_a_lease_shows_active_only_while_its_owner_wants_it(world: World) -> None:
    for _ in range(TROUBLED):
        turn(world)
        assert world.lease.state is not LeaseState.ACTIVE or world.lease.desired is Desired.RUN


@given(stories)
def test_without_the_wish_for_a_replacement_there_is_one_vm_at_most_in_a_life(world: World) -> None:
    for _ in range(TROUBLED):
        turn(world)
    replaced = world.steps.count("RejectVm")
    if world.lease.on_interruption is OnInterruption.END and world.lease.ready_at is not None and not replaced:
        assert world.steps.count("Requeue") == 0


@given(stories)
def test_a_lease_left_alone_ends_within_minutes_of_its_expiry(world: World) -> None:
    world.calm = True
    ends = world.lease.expires_at + timedelta(minutes=25)
    while not world.lease.terminal:
        turn(world)
        assert world.now < ends, world.steps[-20:]
