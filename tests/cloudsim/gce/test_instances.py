import uuid
from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import EMAIL, IMAGE, SPOT, ZONE, Gce, Refused

GCP: dict[str, Any] = {"provider": "gcp"}


def test_a_vm_goes_through_its_life(gce: Gce, clock: ManualClock) -> None:
    operation = gce.insert(labels={"a": "b"}, description="d", tags={"items": ["t"]})
    assert (operation["operationType"], operation["status"], operation["user"]) == ("insert", "RUNNING", EMAIL)
    vm = gce.vm()
    assert (vm["id"], vm["status"]) == (operation["targetId"], "PROVISIONING")
    assert (vm["labels"], vm["description"], vm["tags"]["items"]) == ({"a": "b"}, "d", ["t"])
    clock.forward(1)
    assert gce.vm()["status"] == "RUNNING"
    assert gce("zoneOperations.get", zone=ZONE, operation=operation["name"])["status"] == "DONE"
    assert gce("instances.delete", zone=ZONE, instance="vm")["status"] == "RUNNING"
    assert gce.vm()["status"] == "STOPPING"
    assert gce("instances.delete", zone=ZONE, instance="vm")["operationType"] == "delete"
    clock.forward(1)
    with pytest.raises(Refused, match="notFound"):
        gce.vm()
    kinds = [one["operationType"] for one in gce("zoneOperations.list", zone=ZONE)["items"]]
    assert kinds == ["insert", "delete"]


def test_a_vm_is_found_by_name_and_by_number(gce: Gce) -> None:
    number = gce.insert()["targetId"]
    assert gce.vm("vm")["id"] == gce.vm(number)["id"] == number
    for other in ("other", "1", str(int(number) + 1)):
        with pytest.raises(Refused, match="notFound"):
            gce.vm(other)
    with pytest.raises(Refused, match="notFound"):
        gce.vm("vm", zone="us-central1-b")


def test_a_name_is_taken_while_its_vm_lives(gce: Gce, clock: ManualClock) -> None:
    first = gce.insert()["targetId"]
    with pytest.raises(Refused) as caught:
        gce.insert()
    assert (caught.value.status, caught.value.reason) == (409, "alreadyExists")
    gce.insert(zone="us-central1-b")
    gce("instances.delete", zone=ZONE, instance="vm")
    with pytest.raises(Refused, match="alreadyExists"):
        gce.insert()
    clock.forward(1)
    second = gce.insert()["targetId"]
    assert second != first
    assert gce.vm()["id"] == second


def test_a_request_is_done_once(gce: Gce, sim: Control) -> None:
    request = str(uuid.uuid4())
    first = gce.insert(request=request)
    assert gce.insert(request=request, labels={"other": "body"})["targetId"] == first["targetId"]
    assert len(sim.instances(**GCP)) == 1
    with pytest.raises(Refused, match="not a UUID"):
        gce.insert(request="x")


def test_want_of_capacity_is_told_inside_the_operation(gce: Gce, sim: Control) -> None:
    sim.capacity(0, zone=ZONE, **GCP)
    request = str(uuid.uuid4())
    for _ in range(2):
        operation = gce.insert(request=request)
        assert operation["status"] == "DONE"
        (error,) = operation["error"]["errors"]
        assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    with pytest.raises(Refused, match="notFound"):
        gce.vm()
    assert gce.names() == []
    assert not sim.instances(alive="true", **GCP)
    assert sim.resources(**GCP) == []
    gce.insert(zone="us-central1-b")
    sim.capacity(None, zone=ZONE, **GCP)
    assert "error" not in gce.insert()


def test_a_refusal_can_take_its_time(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.settings(refusal_seconds=5)
    sim.capacity(0, zone=ZONE, **GCP)
    operation = gce.insert()
    assert operation["status"] == "RUNNING"
    assert gce.names() == []
    clock.forward(5)
    told = gce("zoneOperations.get", zone=ZONE, operation=operation["name"])
    assert told["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"


def test_quotas_count_gpus_and_spot_apart(gce: Gce, sim: Control) -> None:
    sim.quota("NVIDIA_L4_GPUS", 2, **GCP)
    large = {"machineType": f"zones/{ZONE}/machineTypes/g2-standard-24"}
    assert "error" not in gce.insert("one", **large)
    (error,) = gce.insert("two")["error"]["errors"]
    assert error["code"] == "QUOTA_EXCEEDED"
    assert "NVIDIA_L4_GPUS" in error["message"]
    assert "error" not in gce.insert("three", **SPOT)
    told = {one["metric"]: one for one in gce("regions.get", region="us-central1")["quotas"]}
    assert (told["NVIDIA_L4_GPUS"]["limit"], told["NVIDIA_L4_GPUS"]["usage"]) == (2, 2)
    assert told["PREEMPTIBLE_NVIDIA_L4_GPUS"]["usage"] == 1
    (overall,) = gce("projects.get")["quotas"]
    assert (overall["metric"], overall["usage"]) == ("GPUS_ALL_REGIONS", 3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "Upper"}, "resource.name"),
        ({"machineType": f"zones/{ZONE}/machineTypes/n1-standard-1"}, "does not exist in zone"),
        ({"scheduling": {}}, "live migration"),
        ({"scheduling": {"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT"}}, "automatic restart"),
        ({"scheduling": {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": "60"}}}, "TerminationAction"),
        ({"scheduling": {"onHostMaintenance": "TERMINATE", "maxRunDuration": {"seconds": "5"}}}, "120 days"),
        ({"labels": {"Upper": "x"}}, "label key"),
        ({"disks": [{"boot": True, "initializeParams": {"sourceImage": IMAGE, "diskType": "x/unknown"}}]}, "disk type"),
        ({"disks": [{"boot": False, "initializeParams": {"diskSizeGb": "100"}}]}, "boot disk"),
        ({"shieldedInstanceConfig": {"enableIntegrityMonitoring": True}}, "virtual TPM"),
        ({"labels": {"a": "x" * 64}}, "label value"),
        ({"labels": {f"k{n}": "" for n in range(65)}}, "64 labels"),
        ({"networkInterfaces": []}, "network interface"),
        ({"disks": []}, "boot disk"),
        ({"metadata": {"items": [{"key": "k", "value": "x" * 262_145}]}}, "262144"),
        ({"disks": [{"boot": True, "initializeParams": {"sourceImage": "x"}}]}, "malformed"),
    ],
)
def test_what_google_refuses_is_refused(gce: Gce, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as caught:
        gce.insert(**changes)
    assert (caught.value.status, caught.value.reason) == (400, "invalid")
    assert why.lower() in caught.value.message.lower()


def test_an_image_that_does_not_exist_is_not_found(gce: Gce) -> None:
    missing = {"sourceImage": "projects/p/global/images/none"}
    with pytest.raises(Refused, match="notFound"):
        gce.insert(disks=[{"boot": True, "initializeParams": missing}])


def test_a_small_disk_does_not_hold_the_image(gce: Gce) -> None:
    family = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580"
    small = {"sourceImage": family, "diskSizeGb": "5"}
    with pytest.raises(Refused, match="at least 50 GB"):
        gce.insert(disks=[{"boot": True, "initializeParams": small}])


def test_spot_vms_are_taken_back_without_notice(gce: Gce, sim: Control, clock: ManualClock) -> None:
    number = gce.insert(**SPOT)["targetId"]
    assert gce.vm()["scheduling"]["preemptible"] is True
    clock.forward(1)
    sim.interrupt(number, 30, **GCP)
    wanted = 'operationType = "compute.instances.preempted"'
    zone = f"zones/{ZONE}"
    assert "operations" not in gce("globalOperations.aggregatedList", filter=wanted)["items"][zone]
    clock.forward(30)
    (taken,) = gce("globalOperations.aggregatedList", filter=wanted)["items"][zone]["operations"]
    assert (taken["targetId"], taken["user"], taken["status"]) == (number, "system", "DONE")


def test_labels_are_replaced_under_their_fingerprint(gce: Gce) -> None:
    gce.insert(labels={"a": "1", "b": "2"})
    seen = gce.vm()["labelFingerprint"]
    wanted = {"labels": {"b": "3"}, "labelFingerprint": seen}
    assert gce("instances.setLabels", wanted, zone=ZONE, instance="vm")["status"] == "DONE"
    assert gce.vm()["labels"] == {"b": "3"}
    with pytest.raises(Refused) as caught:
        gce("instances.setLabels", wanted, zone=ZONE, instance="vm")
    assert (caught.value.status, caught.value.reason) == (412, "conditionNotMet")


def test_only_a_running_vm_is_reset_and_prints(gce: Gce, sim: Control, clock: ManualClock) -> None:
    gce.insert()
    assert gce("instances.getSerialPortOutput", zone=ZONE, instance="vm")["contents"] == ""
    with pytest.raises(Refused, match="resourceNotReady"):
        gce("instances.reset", zone=ZONE, instance="vm")
    clock.forward(1)
    assert gce("instances.reset", zone=ZONE, instance="vm")["status"] == "DONE"
    assert "Linux" in gce("instances.getSerialPortOutput", zone=ZONE, instance="vm")["contents"]
    assert sim.calls("gcp")["instances.reset"] == 2


@pytest.mark.parametrize("enabled", [True, False])
def test_the_guest_attribute_shows_once_the_vm_is_ready_if_it_may_write(
    gce: Gce, clock: ManualClock, enabled: bool
) -> None:
    item = {"key": "enable-guest-attributes", "value": "TRUE" if enabled else "FALSE"}
    gce.insert(metadata={"items": [item]})
    asked = {"zone": ZONE, "instance": "vm", "queryPath": "gpulease/ready"}
    clock.forward(0.5)
    with pytest.raises(Refused, match="notFound"):
        gce("instances.getGuestAttributes", **asked)
    clock.forward(0.5)
    if enabled:
        (found,) = gce("instances.getGuestAttributes", **asked)["queryValue"]["items"]
        assert (found["namespace"], found["key"]) == ("gpulease", "ready")
    else:
        with pytest.raises(Refused, match="notFound"):
            gce("instances.getGuestAttributes", **asked)


def test_an_external_address_comes_only_when_asked_for(gce: Gce, clock: ManualClock) -> None:
    access = [{"type": "ONE_TO_ONE_NAT"}]
    gce.insert("out", networkInterfaces=[{"network": "global/networks/default", "accessConfigs": access}])
    gce.insert("in")
    clock.forward(1)
    assert gce.vm("out")["networkInterfaces"][0]["accessConfigs"][0]["natIP"]
    assert "accessConfigs" not in gce.vm("in")["networkInterfaces"][0]


def test_a_fresh_vm_may_take_a_while_to_show(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.settings(list_lag_seconds=3)
    gce.insert()
    assert gce.names() == []
    with pytest.raises(Refused, match="notFound"):
        gce.vm()
    clock.forward(3)
    assert gce.names() == ["vm"]


def test_deletion_protection_refuses_the_end(gce: Gce, sim: Control) -> None:
    gce.insert()
    (number,) = (vm["id"] for vm in sim.instances(**GCP))
    sim.protect(number, **GCP)
    with pytest.raises(Refused) as caught:
        gce("instances.delete", zone=ZONE, instance="vm")
    assert (caught.value.status, caught.value.reason) == (400, "invalidResourceUsage")
    assert gce.vm()["status"] == "PROVISIONING"
    sim.protect(number, **GCP, protected=False)
    assert gce("instances.delete", zone=ZONE, instance="vm")["operationType"] == "delete"


def test_every_insert_of_a_refused_project_fails(gce: Gce, sim: Control) -> None:
    request = str(uuid.uuid4())
    made = gce.insert("before", request=request)
    sim.refuse_launches("SERVICE_ACCOUNT_ACCESS_DENIED", **GCP)
    for name in ("first", "second"):
        operation = gce.insert(name)
        assert operation["error"]["errors"][0]["code"] == "SERVICE_ACCOUNT_ACCESS_DENIED"
    assert gce.insert("before", request=request)["targetId"] == made["targetId"]
    sim.refuse_launches("forbidden", **GCP)
    with pytest.raises(Refused, match="forbidden"):
        gce.insert("third")
    assert gce.names() == ["before"]
    sim.refuse_launches(None, **GCP)
    assert "error" not in gce.insert("third")
