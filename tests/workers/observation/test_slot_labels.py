"""The own tags of VMs of a batch are written beside the watch, once, and again only when the cloud has lost them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tests.workers.cohorts import created
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.inventory import take_inventory
from workers.observation.listings import RegionListing
from workers.observation.slot_labels import label_listed, label_noted, note_left
from workers.observation.watch import watch
from workers.runtime.unlabelled_vms import UnlabelledVms

PLACE = (ACCOUNT, REGION)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def launch(fleet: Fleet, count: int) -> None:
    """A batch whose VMs boot."""
    created(fleet, count)
    while fleet.runs() == 0:
        fleet.step()


def labelled(fleet: Fleet) -> int:
    return sum("gpulease-lease" in vm["tags"] for vm in fleet.vms())


def label_in_a_second(fleet: Fleet) -> int:
    """When the cloud knows the VMs."""
    fleet.wait_for(lambda: bool(fleet.runtime.unlabelled.waiting()))
    return label_noted(fleet.runtime)


def test_the_process_that_launched_vms_writes_their_tags_and_no_other_does(make_fleet: Callable[..., Fleet]) -> None:
    fleet, other = make_fleet(), make_fleet()
    launch(fleet, 3)
    before = fleet.sim.calls().get("CreateTags", 0)
    for one in (fleet, other):
        watch(one.runtime, *PLACE)
    assert (fleet.sim.calls().get("CreateTags", 0), labelled(fleet)) == (before, 0)
    assert label_in_a_second(fleet) == 3
    assert (fleet.sim.calls()["CreateTags"], labelled(fleet)) == (before + 3, 3)
    assert (label_noted(fleet.runtime), label_noted(other.runtime)) == (0, 0)
    assert not other.runtime.unlabelled.waiting()


def test_the_watch_notes_what_a_process_that_ended_has_left(fleet: Fleet) -> None:
    launch(fleet, 3)
    clock = Clock()
    runtime = replace(fleet.runtime, unlabelled=UnlabelledVms(clock))
    found = fleet.runtime.accounts.provider(ACCOUNT).get(REGION, [vm["id"] for vm in fleet.vms()]).values()
    vms = [vm for vm in found if vm is not None]
    launched_at = max(vm.launched_at for vm in vms if vm.launched_at is not None)
    for seconds, left in ((9, 0), (11, 3)):
        note_left(runtime, *PLACE, vms, launched_at + timedelta(seconds=seconds))
        clock.now += 2
        assert sum(map(len, runtime.unlabelled.waiting().values())) == left
    assert label_noted(runtime) == 3


def test_the_inventory_that_finds_the_vms_of_a_lost_answer_writes_their_tags(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    launch(fleet, 3)
    take_inventory(fleet.runtime, *PLACE)
    assert labelled(fleet) == 3
    assert not fleet.runtime.unlabelled.waiting()


def test_a_refused_call_is_made_again(fleet: Fleet) -> None:
    launch(fleet, 3)
    fleet.sim.fault("CreateTags", "error", times=1)
    label_in_a_second(fleet)
    label_noted(fleet.runtime)
    assert labelled(fleet) == 3


def test_the_inventory_writes_what_the_watch_has_left_and_leaves_young_vms_alone(fleet: Fleet) -> None:
    launch(fleet, 3)
    pages = fleet.runtime.accounts.provider(ACCOUNT).list(frozenset({REGION}), fleet.runtime.installation.id)
    vms = {vm.id: vm for page in pages for vm in page.vms}
    launched_at = min(vm.launched_at for vm in vms.values() if vm.launched_at is not None)
    listed = partial(RegionListing, vms=vms, unreachable=frozenset(), calls=1, seconds=0.0)
    assert not label_listed(fleet.runtime, *PLACE, listed(started_at=launched_at + timedelta(seconds=59)), ())
    assert labelled(fleet) == 0
    assert label_listed(fleet.runtime, *PLACE, listed(started_at=launched_at + timedelta(seconds=62)), ()) == set(vms)
    assert labelled(fleet) == 3


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_tags_that_the_cloud_does_not_show_yet_are_not_written_again(clock: Clock) -> None:
    noted = UnlabelledVms(clock)
    noted.note(*PLACE, ["vm-1", "vm-2"])
    noted.note("other", REGION, ["vm-3"])
    assert noted.waiting() == {}, "the cloud may not know them yet"
    clock.now += 1
    assert noted.waiting() == {PLACE: ["vm-1", "vm-2"], ("other", REGION): ["vm-3"]}
    noted.labelled(["vm-1"])
    noted.note(*PLACE, ["vm-1", "vm-2"])
    assert noted.waiting()[PLACE] == ["vm-2"]
    clock.now += 31
    noted.note(*PLACE, ["vm-1"])
    clock.now += 1
    assert noted.waiting()[PLACE] == ["vm-2", "vm-1"]


def test_what_cannot_be_written_is_left_to_the_inventory(clock: Clock) -> None:
    noted = UnlabelledVms(clock)
    noted.note(*PLACE, ["vm-1"])
    clock.now += timedelta(minutes=5).total_seconds()
    assert noted.waiting() == {}
