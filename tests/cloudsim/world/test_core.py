import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from cloudsim.ec2.catalog import catalog
from cloudsim.settings import PROFILES, Settings
from cloudsim.world import (
    CapacityExhausted,
    DiskOrder,
    Market,
    NicOrder,
    Order,
    QuotaExceeded,
    TokenMismatch,
    VmState,
    World,
    WorldError,
)
from cloudsim.world.capacity import Cell
from tests.cloudsim.clock import START, ManualClock

REALISTIC = PROFILES["realistic"]
QUOTA = ("aws", "1", "us-east-1", "L-DB2E81BA")


def make_world(clock: ManualClock, settings: Settings = REALISTIC) -> World:
    return World([catalog()], settings, clock=clock, rng=random.Random(7))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> World:
    return make_world(clock)


def order(world: World, *, keep_disk: bool = False, spec: Mapping[str, object] | None = None) -> Order:
    return Order(
        provider="aws",
        account="1",
        region="us-east-1",
        zones=("us-east-1a", "us-east-1b"),
        id=f"i-{world.hex(17)}",
        name="",
        instance_type="g5.xlarge",
        market=Market.ON_DEMAND,
        image="ami",
        tags={"a": "1"},
        token=None,
        token_scope="us-east-1",
        params_hash="h",
        public_ip=True,
        disks=(DiskOrder(id=f"vol-{world.hex(17)}", tags={}, delete_with_vm=not keep_disk, spec={}),),
        nics=(NicOrder(id=f"eni-{world.hex(17)}", tags={}, delete_with_vm=True, spec={}),),
        spec=spec or {},
    )


def test_a_vm_goes_through_its_states_at_their_times(world: World, clock: ManualClock) -> None:
    vm = world.launch(order(world))
    times = []
    last = vm.state
    for _ in range(300):
        clock.forward(0.5)
        world.advance()
        if clock.now - START == 60:
            world.end(vm)
        if vm.state is not last:
            times.append((vm.state, clock.now - START))
            last = vm.state
    assert times == [(VmState.RUNNING, 5), (VmState.SHUTTING_DOWN, 60), (VmState.TERMINATED, 65)]
    assert (vm.ending_at, vm.ended_at) == (START + 60, START + 65)
    assert world.resources == {}


def test_one_long_jump_has_the_same_end_as_many_short_ones(clock: ManualClock) -> None:
    def run(steps: int) -> tuple[object, ...]:
        mine = ManualClock()
        world = make_world(mine)
        vm = world.launch(replace(order(world), market=Market.SPOT))
        world.interrupt(vm, 120, "price")
        for _ in range(steps):
            mine.forward(200 / steps)
            world.advance()
        return vm.state, vm.running_at, vm.ending_at, vm.ended_at, vm.end_code, tuple(world.resources)

    assert run(1) == run(400)


def test_time_never_goes_back(world: World, clock: ManualClock) -> None:
    clock.forward(10)
    world.advance()
    clock.forward(-5)
    assert world.advance() == START + 10


def test_a_vm_reclaimed_while_pending_still_shows_running_first(world: World, clock: ManualClock) -> None:
    vm = world.launch(replace(order(world), market=Market.SPOT))
    world.interrupt(vm, 10, "price")
    clock.forward(6)
    world.advance()
    assert vm.state.value == "running"
    clock.forward(5)
    world.advance()
    assert vm.state.value == "shutting-down"
    with pytest.raises(WorldError, match="nothing left to reclaim"):
        world.interrupt(vm, 10, "price")


def test_the_first_zone_with_capacity_is_taken(world: World) -> None:
    world.capacity.put([Cell("aws", "us-east-1a", "g5.xlarge", Market.ON_DEMAND)], 0)
    assert world.launch(order(world)).zone == "us-east-1b"
    world.capacity.put([Cell("aws", "us-east-1b", "g5.xlarge", Market.ON_DEMAND)], 0)
    with pytest.raises(CapacityExhausted):
        world.launch(order(world))


def test_vms_older_than_a_capacity_setting_give_nothing_back_to_it(world: World, clock: ManualClock) -> None:
    cells = [Cell("aws", zone, "g5.xlarge", Market.ON_DEMAND) for zone in ("us-east-1a", "us-east-1b")]
    world.capacity.put(cells, 1)
    old = world.launch(order(world))
    world.capacity.put(cells, 0)
    world.end(old)
    clock.forward(10)
    world.advance()
    with pytest.raises(CapacityExhausted):
        world.launch(order(world))


def test_quota_is_held_until_the_vm_is_terminated(world: World, clock: ManualClock) -> None:
    world.quotas.limits[QUOTA] = 4
    vm = world.launch(order(world))
    with pytest.raises(QuotaExceeded):
        world.launch(order(world))
    world.end(vm)
    with pytest.raises(QuotaExceeded):
        world.launch(order(world))
    clock.forward(5)
    world.advance()
    world.launch(order(world))
    assert world.quotas.used[QUOTA] == 4


def test_tokens_answer_the_same_vm_until_history_ends(world: World, clock: ManualClock) -> None:
    wanted = replace(order(world), token="t")
    vm = world.launch(wanted)
    assert world.launch(replace(wanted, id="i-other")) is vm
    with pytest.raises(TokenMismatch):
        world.launch(replace(wanted, params_hash="other"))
    world.end(vm)
    clock.forward(5 + world.settings.history_seconds + 1)
    world.advance()
    assert world.launch(replace(wanted, id="i-other")).id == "i-other"


def test_a_kept_disk_stays_detached(world: World, clock: ManualClock) -> None:
    world.end(world.launch(order(world, keep_disk=True)))
    clock.forward(100)
    world.advance()
    (disk,) = world.resources.values()
    assert disk.vm_id is None


def test_other_settings_take_hold_at_once(world: World, clock: ManualClock) -> None:
    vm = world.launch(order(world))
    clock.forward(30)
    world.advance()
    world.end(vm)
    clock.forward(100)
    world.advance()
    assert world.visible("aws", "1", "us-east-1", vm.id) is vm
    world.apply_settings(world.settings.changed(terminated_visible_seconds=10))
    assert world.visible("aws", "1", "us-east-1", vm.id) is None


def test_the_same_seed_makes_the_same_ids(clock: ManualClock) -> None:
    assert make_world(clock).hex(17) == make_world(clock).hex(17)
