"""The own tags of VMs of a batch are written beside the watch, once, and again only when the cloud has lost them."""

from datetime import timedelta
from functools import partial

import pytest

from tests.workers.cohorts import created
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.observation.listings import Listed
from workers.observation.slot_labels import label_listed, label_noted
from workers.observation.unlabelled_vms import UnlabelledVms
from workers.observation.watch import watch

PLACE = (ACCOUNT, REGION)


def launch(fleet: Fleet, count: int) -> None:
    """A batch whose VMs boot."""
    created(fleet, count)
    while fleet.runs() == 0:
        fleet.step()


def labelled(fleet: Fleet) -> int:
    return sum("gpulease-lease" in vm["tags"] for vm in fleet.vms())


def test_the_watch_writes_no_tags_and_waits_for_none(fleet: Fleet) -> None:
    launch(fleet, 3)
    before = fleet.sim.calls().get("CreateTags", 0)
    watch(fleet.runtime, *PLACE)
    assert (fleet.sim.calls().get("CreateTags", 0), labelled(fleet)) == (before, 0)
    assert label_noted(fleet.runtime) == 3
    assert (fleet.sim.calls()["CreateTags"], labelled(fleet)) == (before + 3, 3)
    assert label_noted(fleet.runtime) == 0


def test_a_refused_call_is_made_again(fleet: Fleet) -> None:
    launch(fleet, 3)
    watch(fleet.runtime, *PLACE)
    fleet.sim.fault("CreateTags", "error", times=1)
    label_noted(fleet.runtime)
    label_noted(fleet.runtime)
    assert labelled(fleet) == 3


def test_the_inventory_writes_what_the_watch_has_left_and_leaves_young_vms_alone(fleet: Fleet) -> None:
    launch(fleet, 3)
    pages = fleet.runtime.accounts.provider(ACCOUNT).list(frozenset({REGION}), fleet.runtime.installation.id)
    vms = {vm.id: vm for page in pages for vm in page.vms}
    launched_at = min(vm.launched_at for vm in vms.values() if vm.launched_at is not None)
    listed = partial(Listed, vms=vms, unreachable=frozenset(), calls=1, seconds=0.0)
    assert not label_listed(fleet.runtime, *PLACE, listed(started_at=launched_at + timedelta(seconds=59)))
    assert labelled(fleet) == 0
    assert label_listed(fleet.runtime, *PLACE, listed(started_at=launched_at + timedelta(seconds=62))) == set(vms)
    assert labelled(fleet) == 3


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_tags_that_the_cloud_does_not_show_yet_are_not_written_again(clock: Clock) -> None:
    noted = UnlabelledVms(clock)
    noted.note(*PLACE, ["vm-1", "vm-2"])
    noted.note("other", REGION, ["vm-3"])
    assert noted.waiting() == {PLACE: ["vm-1", "vm-2"], ("other", REGION): ["vm-3"]}
    noted.labelled(["vm-1"])
    noted.note(*PLACE, ["vm-1", "vm-2"])
    assert noted.waiting()[PLACE] == ["vm-2"]
    clock.now += 31
    noted.note(*PLACE, ["vm-1"])
    assert noted.waiting()[PLACE] == ["vm-2", "vm-1"]


def test_what_cannot_be_written_is_left_to_the_inventory(clock: Clock) -> None:
    noted = UnlabelledVms(clock)
    noted.note(*PLACE, ["vm-1"])
    clock.now += timedelta(minutes=5).total_seconds()
    assert noted.waiting() == {}
