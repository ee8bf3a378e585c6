from pathlib import Path

import pytest

from cloudsim.testing import running
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import ZONE, Gce, Refused


def test_a_restart_keeps_vms_rules_and_what_operations_tell(tmp_path: Path) -> None:
    clock = ManualClock()
    with running(clock=clock, state=tmp_path / "state") as sim:
        gce = Gce(sim.url)
        number = gce.insert("kept")["targetId"]
        sim.capacity(0, zone=ZONE, provider="gcp")
        refused = gce.insert("refused")
        gce("firewalls.insert", {"name": "r", "allowed": [{"IPProtocol": "tcp"}], "sourceRanges": ["10.0.0.0/8"]})
        gce.close()
    with running(clock=clock, state=tmp_path / "state") as sim:
        gce = Gce(sim.url)
        assert gce.vm("kept")["id"] == number
        assert gce("zoneOperations.get", zone=ZONE, operation=refused["name"])["error"] == refused["error"]
        assert gce("firewalls.get", firewall="r")["name"] == "r"
        with pytest.raises(Refused, match="alreadyExists"):
            gce.insert("kept")
        sim.reset()
        assert gce.names() == []
        gce.insert("kept")
        gce.close()
