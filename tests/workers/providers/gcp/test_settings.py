"""What each setting of an account changes in a launch, and what becomes of it at a simulated Compute Engine."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.domain import tags
from app.local.waiting import wait_until
from cloudsim.gce.existing import HOST_PROJECT
from cloudsim.testing import Control, running
from tests.cloudsim.gce.discovery import checked
from tests.workers.providers.gcp.accounts import PROJECT, REGION, ZONE, provider
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.gcp.test_launch import instance, planned
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers import errors
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.types import Leftover, Vm

KEY = f"projects/keys/locations/{REGION}/keyRings/gpulease/cryptoKeys/disks"
NODE = f"gpulease-node@{PROJECT}.iam.gserviceaccount.com"
NETWORKS = ("203.0.113.0/24", "2001:db8::/32")
EVERYTHING = {
    "service_account": NODE,
    "kms_keys": {REGION: KEY},
    "disk_type": "pd-ssd",
    "shielded_vm": True,
    "data_disk_gib": 500,
    "tags": {"cost_center": "4711"},
}
SHARED = {"host_project": HOST_PROJECT, "network": "vpc", "subnetworks": {REGION: "gpus"}}


def test_a_shared_network_belongs_to_the_host_project() -> None:
    params = planned(spec(allowed_cidrs=NETWORKS), host_project="network-123456", network="vpc")
    assert params["instance"]["networkInterfaces"][0]["network"] == "projects/network-123456/global/networks/vpc"
    assert {rule["network"] for rule in params["firewalls"]} == {"projects/network-123456/global/networks/vpc"}
    (interface,) = instance(spec(), host_project="network-123456", subnetworks={REGION: "gpus"})["networkInterfaces"]
    assert interface["subnetwork"] == f"projects/network-123456/regions/{REGION}/subnetworks/gpus"


def test_a_service_account_comes_with_its_scopes() -> None:
    made = instance(spec(), service_account=NODE)["serviceAccounts"]
    assert made == [{"email": NODE, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}]
    scope = "https://www.googleapis.com/auth/devstorage.read_only"
    made = instance(spec(), service_account=NODE, service_account_scopes=(scope,))["serviceAccounts"]
    assert made == [{"email": NODE, "scopes": [scope]}]


def test_the_key_and_the_type_are_those_of_every_disk() -> None:
    disks = instance(spec(), kms_keys={REGION: KEY}, disk_type="pd-ssd", data_disk_gib=500)["disks"]
    assert [disk["diskEncryptionKey"] for disk in disks] == [{"kmsKeyName": KEY}] * 2
    assert {disk["initializeParams"]["diskType"] for disk in disks} == {f"zones/{ZONE}/diskTypes/pd-ssd"}
    assert "diskEncryptionKey" not in instance(spec())["disks"][0]


@pytest.mark.parametrize("secure_boot", [True, False])
def test_a_shielded_vm_has_a_tpm_and_secure_boot_only_on_request(*, secure_boot: bool) -> None:
    assert instance(spec(), shielded_vm=True, secure_boot=secure_boot)["shieldedInstanceConfig"] == {
        "enableSecureBoot": secure_boot,
        "enableVtpm": True,
        "enableIntegrityMonitoring": True,
    }
    assert "shieldedInstanceConfig" not in instance(spec())


def test_a_data_disk_is_empty_and_deleted_with_the_vm() -> None:
    made = instance(spec(), data_disk_gib=500)
    _, data = made["disks"]
    assert (data["autoDelete"], data["boot"], data["deviceName"]) == (True, False, "gpulease-data")
    assert data["initializeParams"]["diskSizeGb"] == "500"
    assert data["initializeParams"]["diskName"] == f"{made['name']}-data"
    assert "sourceImage" not in data["initializeParams"]
    assert len(data["initializeParams"]["diskName"]) <= 63


def test_an_account_without_public_addresses_gives_none() -> None:
    assert "accessConfigs" not in instance(spec(public_ip=True), public_addresses=False)["networkInterfaces"][0]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Control]:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        yield sim


@pytest.fixture
def sim(cloud: Control) -> Control:
    cloud.reset()
    return cloud


def connect(sim: Control, folder: Path, **settings: Any) -> GcpProvider:
    found: GcpProvider = checked(provider(sim.url, folder, **settings))
    return found


def launch(gcp: GcpProvider, **changes: Any) -> Vm:
    return gcp.launch(REGION, gcp.plan(spec(image=gcp.image(REGION), **changes)))


def left(gcp: GcpProvider) -> list[Leftover]:
    return list(gcp.leftovers(REGION, INSTALLATION, None).resources)


def test_a_vm_with_everything_leaves_nothing(sim: Control, tmp_path: Path) -> None:
    gcp = connect(sim, tmp_path, **EVERYTHING)
    vm = launch(gcp)
    assert [one.tags["cost_center"] for one in left(gcp)] == ["4711"] * 2
    later = owner().deadline_at + timedelta(hours=1)
    gcp.set_deadline(REGION, [vm.id], later).require()
    assert {one.tags[tags.DEADLINE] for one in left(gcp)} == {str(int(later.timestamp()))}
    gcp.terminate(REGION, [vm.id]).require()
    assert wait_until(lambda: not left(gcp), timeout=10)


def test_a_data_disk_that_stays_is_found_and_removed(sim: Control, tmp_path: Path) -> None:
    gcp = connect(sim, tmp_path, data_disk_gib=500)
    params = gcp.plan(spec(image=gcp.image(REGION)))
    params["instance"]["disks"][1]["autoDelete"] = False
    gcp.terminate(REGION, [gcp.launch(REGION, params).id]).require()
    assert wait_until(lambda: [one.in_use for one in left(gcp)] == [False], timeout=10)
    gcp.remove_leftover(left(gcp)[0])
    assert not left(gcp)


@pytest.mark.parametrize(
    "settings",
    [
        {"service_account": f"unknown@{PROJECT}.iam.gserviceaccount.com"},
        {"kms_keys": {REGION: KEY.replace("cryptoKeys/disks", "cryptoKeys/unknown")}},
        {"disk_type": "pd-unknown"},
        {"host_project": HOST_PROJECT, "network": "unknown"},
        {**SHARED, "subnetworks": {REGION: "unknown"}},
    ],
)
def test_what_does_not_exist_is_a_bad_request(sim: Control, tmp_path: Path, settings: dict[str, Any]) -> None:
    gcp = connect(sim, tmp_path, **settings)
    with pytest.raises(errors.InvalidSpec):
        launch(gcp, allowed_cidrs=NETWORKS)
    assert sim.instances(provider="gcp") == []
    assert left(gcp) == []


def rules(sim: Control) -> list[str]:
    """The projects that have firewall rules."""
    return sorted(one["account"] for one in sim.resources(provider="gcp") if one["kind"] == "security_group")


def test_rules_of_a_shared_network_are_made_and_removed_in_the_host_project(sim: Control, tmp_path: Path) -> None:
    gcp = connect(sim, tmp_path, **SHARED)
    vm = launch(gcp, allowed_cidrs=NETWORKS)
    assert rules(sim) == [HOST_PROJECT] * 2
    assert launch(gcp, allowed_cidrs=NETWORKS).id == vm.id
    held = [one for one in left(gcp) if one.free]
    assert [one.in_use for one in held] == [True] * 2
    gcp.terminate(REGION, [vm.id]).require()
    assert wait_until(lambda: not any(one.in_use for one in left(gcp)), timeout=10)
    for one in held * 2:
        gcp.remove_leftover(one)
    assert rules(sim) == []


def test_an_account_leaves_the_rules_of_another_one_in_the_same_host_project_alone(
    sim: Control, tmp_path: Path
) -> None:
    ours, theirs = connect(sim, tmp_path, **SHARED), connect(sim, tmp_path, **SHARED)
    theirs._clients.project = "other-project"
    launch(ours, allowed_cidrs=NETWORKS)
    assert [one for one in left(theirs) if one.free] == []
    host = connect(sim, tmp_path, network="vpc")
    host._clients.project = host._clients.network_project = HOST_PROJECT
    assert left(host) == []


def test_a_refused_launch_leaves_no_rule_in_the_host_project(sim: Control, tmp_path: Path) -> None:
    sim.capacity(0, provider="gcp", zone=ZONE)
    with pytest.raises(errors.InsufficientCapacity):
        launch(connect(sim, tmp_path, **SHARED), allowed_cidrs=NETWORKS)
    assert rules(sim) == []


def test_an_attempt_from_before_the_shared_network_is_sent_as_stored_and_its_rules_are_found(
    sim: Control, tmp_path: Path
) -> None:
    old, new = connect(sim, tmp_path), connect(sim, tmp_path, **SHARED, **EVERYTHING)
    stored = old.plan(spec(image=old.image(REGION), allowed_cidrs=NETWORKS))
    assert new.launch(REGION, stored).id == old.launch(REGION, stored).id
    assert rules(sim) == [PROJECT] * 2
    for one in [one for one in left(new) if one.free]:
        new.remove_leftover(one)
    assert rules(sim) == []
