"""Disks that a VM gets after its launch."""

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import ZONE, Gce


@pytest.mark.parametrize("goes_along", [False, True])
def test_an_attached_disk_ends_with_its_vm_if_that_was_asked_for(
    gce: Gce, sim: Control, clock: ManualClock, *, goes_along: bool
) -> None:
    gce.insert()
    gce("disks.insert", {"name": "data", "sizeGb": "10", "type": f"zones/{ZONE}/diskTypes/pd-ssd"}, zone=ZONE)
    clock.forward(2)
    source = f"projects/sim-project/zones/{ZONE}/disks/data"
    gce("instances.attachDisk", {"source": source, "autoDelete": goes_along}, zone=ZONE, instance="vm")
    gce("instances.delete", zone=ZONE, instance="vm")
    clock.forward(2)
    (disk,) = sim.call("GET", "disks")["items"]
    assert (disk["deleted_at"] is not None) is goes_along
