"""Google's records of VMs in the interface's words."""

from datetime import UTC, datetime
from typing import Any

from app.domain.leases import VmState
from app.domain.offerings import Market
from tests.cloudsim.gce.discovery import document
from workers.providers.gcp.sdk import Instance
from workers.providers.gcp.vms import STATES, described, from_instance

LINK = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a"


def instance(**changes: Any) -> Instance:
    complete = {
        "id": 1234,
        "name": "gpulease-x",
        "zone": LINK,
        "machine_type": f"{LINK}/machineTypes/g2-standard-4",
        "status": "RUNNING",
        "creation_timestamp": "2026-11-20T04:34:56.789-08:00",
        "labels": {"a": "b"},
        "scheduling": {"provisioning_model": "STANDARD"},
        "network_interfaces": [{"network_i_p": "10.0.0.2", "access_configs": [{"nat_i_p": "198.18.0.1"}]}],
    }
    return Instance(complete | changes)


def test_every_state_of_google_is_known() -> None:
    assert set(STATES) == set(document()["schemas"]["Instance"]["properties"]["status"]["enum"])


def test_a_running_vm_in_full() -> None:
    vm = from_instance(instance(description=described("f" * 64)), "us-central1")
    assert vm.id == "us-central1-a:gpulease-x:1234"
    assert (vm.region, vm.zone, vm.instance_type) == ("us-central1", "us-central1-a", "g2-standard-4")
    assert (vm.market, vm.state, vm.tags) == (Market.ON_DEMAND, VmState.RUNNING, {"a": "b"})
    assert vm.launch_identity == "gpulease-x", "the name: a copy of the VM has the same description"
    assert vm.launched_at == datetime(2026, 11, 20, 12, 34, 56, 789000, tzinfo=UTC)
    assert (vm.private_ip, vm.public_ip) == ("10.0.0.2", "198.18.0.1")
    assert vm.state_reason is None
    assert vm.ended_at is None


def test_a_stopped_vm_still_exists_and_says_since_when() -> None:
    stopped = instance(status="TERMINATED", last_stop_timestamp="2026-11-20T05:00:00.000-08:00")
    vm = from_instance(stopped, "us-central1")
    assert vm.state is VmState.STOPPED
    assert vm.ended_at == datetime(2026, 11, 20, 13, tzinfo=UTC)
    assert vm.state_reason == {"code": "TERMINATED", "message": None}


def test_a_vm_without_external_address_or_interface_has_none() -> None:
    bare = from_instance(instance(network_interfaces=[{"network_i_p": "10.0.0.2"}]), "us-central1")
    assert (bare.private_ip, bare.public_ip) == ("10.0.0.2", None)
    assert from_instance(instance(network_interfaces=[]), "us-central1").private_ip is None


def test_a_spot_vm_is_spot() -> None:
    assert from_instance(instance(scheduling={"provisioning_model": "SPOT"}), "us-central1").market is Market.SPOT
