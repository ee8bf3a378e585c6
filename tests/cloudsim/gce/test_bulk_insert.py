"""instances.bulkInsert. The fixture holds each call and answer against Google's own description."""

import uuid
from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import ZONE, Gce, Refused, instance

GCP: dict[str, Any] = {"provider": "gcp"}
NAMES = ["vm-c", "vm-a", "vm-d", "vm-b"]


def body(names: list[str], **changes: Any) -> dict[str, Any]:
    properties = {key: value for key, value in instance("x").items() if key != "name"}
    return {
        "count": str(len(names)),
        "minCount": "1",
        "perInstanceProperties": {name: {} for name in names},
        "instanceProperties": {**properties, "machineType": "g2-standard-4", **changes.pop("properties", {})},
        **changes,
    }


def bulk(gce: Gce, names: list[str] | None = None, request: str | None = None, **changes: Any) -> Any:
    query = {} if request is None else {"requestId": request}
    return gce("instances.bulkInsert", body(names or NAMES, **changes), zone=ZONE, **query)


def inserts(gce: Gce, operation: Any) -> dict[str, Any]:
    """The operations of the VMs by name."""
    wanted = f'operationGroupId = "{operation["operationGroupId"]}"'
    found = gce("zoneOperations.list", zone=ZONE, filter=wanted)["items"]
    kinds = [one["operationType"] for one in found]
    assert sorted(kinds) == ["bulkInsert", *["insert"] * (len(kinds) - 1)]
    return {one["targetLink"].rpartition("/")[2]: one for one in found if one["operationType"] == "insert"}


def counts(operation: Any) -> tuple[int, int, int]:
    (status,) = operation["instancesBulkInsertOperationMetadata"]["perLocationStatus"].values()
    return status["targetVmCount"], status["createdVmCount"], status["failedToCreateVmCount"]


def test_each_name_is_a_vm_with_an_operation(gce: Gce, clock: ManualClock, sim: Control) -> None:
    operation = bulk(gce, properties={"labels": {"a": "b"}})
    assert (operation["operationType"], operation["status"], counts(operation)) == ("bulkInsert", "RUNNING", (4, 0, 0))
    children = inserts(gce, operation)
    assert {name: gce.vm(name)["id"] for name in NAMES} == {name: one["targetId"] for name, one in children.items()}
    assert {gce.vm(name)["labels"]["a"] for name in NAMES} == {"b"}
    assert {disk["name"] for disk in gce("disks.aggregatedList")["items"][f"zones/{ZONE}"]["disks"]} == set(NAMES)
    clock.forward(1)
    done = gce("zoneOperations.get", zone=ZONE, operation=operation["name"])
    assert (done["status"], counts(done)) == ("DONE", (4, 4, 0))
    assert "error" not in done
    assert sim.calls("gcp")["instances.bulkInsert"] == 1


def test_a_request_is_done_once_and_found_by_its_id(gce: Gce, sim: Control) -> None:
    request = str(uuid.uuid4())
    first = bulk(gce, request=request)
    assert bulk(gce, request=request)["name"] == first["name"]
    assert len(sim.instances(**GCP)) == 4
    (found,) = gce("zoneOperations.list", zone=ZONE, filter=f'clientOperationId = "{request}"')["items"]
    assert found["name"] == first["name"]


def test_what_has_no_room_fails_in_operations_of_its_own(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.capacity(3, zone=ZONE, **GCP)
    request = str(uuid.uuid4())
    operation = bulk(gce, request=request)
    children = inserts(gce, operation)
    failed = {name for name, one in children.items() if "error" in one}
    assert len(failed) == 1
    assert children[failed.pop()]["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert len(gce.names()) == 3
    sim.capacity(None, zone=ZONE, **GCP)
    clock.forward(1)
    again = bulk(gce, request=request)
    assert (again["status"], counts(again), len(gce.names())) == ("DONE", (4, 3, 1), 3)
    assert "error" not in again


def codes(operation: Any) -> list[str]:
    return [error["code"] for error in operation["error"]["errors"]]


def test_fewer_than_the_minimum_is_an_error_of_the_call_that_names_the_cause_after_the_summary(
    gce: Gce, sim: Control
) -> None:
    sim.capacity(0, zone=ZONE, **GCP)
    operation = bulk(gce)
    assert operation["status"] == "DONE"
    assert codes(operation) == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED"]
    assert {tuple(codes(one)) for one in inserts(gce, operation).values()} == {("ZONE_RESOURCE_POOL_EXHAUSTED",)}
    assert gce.names() == []
    assert sim.resources(**GCP) == []


def test_vms_of_a_call_that_misses_its_minimum_are_deleted_again(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.capacity(3, zone=ZONE, **GCP)
    operation = bulk(gce, minCount="4")
    assert codes(operation) == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED"]
    (status,) = operation["instancesBulkInsertOperationMetadata"]["perLocationStatus"].values()
    assert (status["createdVmCount"], status["deletedVmCount"]) == (3, 3)
    assert {gce.vm(name)["status"] for name in gce.names()} == {"STOPPING"}
    clock.forward(1)
    assert gce.names() == []
    assert sim.resources(**GCP) == []


def test_an_insert_may_fail_and_leave_its_vm(gce: Gce, sim: Control) -> None:
    sim.fault("instances.bulkInsert", "fail_after", **GCP)
    children = inserts(gce, bulk(gce))
    assert {tuple(codes(one)) for one in children.values()} == {("RESOURCE_NOT_FOUND",)}
    assert {gce.vm(name)["id"] for name in NAMES} == {one["targetId"] for one in children.values()}


def test_fresh_operations_do_not_show_in_lists(gce: Gce, sim: Control, clock: ManualClock) -> None:
    sim.settings(operation_lag_seconds=5)
    operation = bulk(gce)
    wanted = f'operationGroupId = "{operation["operationGroupId"]}"'
    assert "items" not in gce("zoneOperations.list", zone=ZONE, filter=wanted)
    clock.forward(5)
    assert len(inserts(gce, operation)) == 4


def test_a_fault_fills_a_part_and_another_changes_the_order(gce: Gce, sim: Control) -> None:
    sim.fault("instances.bulkInsert", "partial", count=2, **GCP)
    bulk(gce)
    assert sorted(gce.names()) == ["vm-a", "vm-b"]
    sim.reset()
    sim.fault("instances.bulkInsert", "shuffle", **GCP)
    bulk(gce)
    assert gce.names() == sorted(NAMES, reverse=True)


def test_a_fault_of_the_operation_refuses_all(gce: Gce, sim: Control) -> None:
    sim.fault("instances.bulkInsert", "error", code="QUOTA_EXCEEDED", **GCP)
    operation = bulk(gce)
    assert codes(operation) == ["VM_MIN_COUNT_NOT_REACHED", "QUOTA_EXCEEDED"]
    assert {one["error"]["errors"][0]["code"] for one in inserts(gce, operation).values()} == {"QUOTA_EXCEEDED"}


def test_more_than_the_quota_is_refused_whole(gce: Gce, sim: Control) -> None:
    sim.quota("NVIDIA_L4_GPUS", 3, region="us-central1", **GCP)
    assert codes(bulk(gce)) == ["VM_MIN_COUNT_NOT_REACHED", "QUOTA_EXCEEDED"]


def test_a_name_that_lives_refuses_the_call(gce: Gce) -> None:
    gce.insert("vm-b")
    with pytest.raises(Refused, match="alreadyExists"):
        bulk(gce)
    assert gce.names() == ["vm-b"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"count": "0"}, "count"),
        ({"count": "1001"}, "count"),
        ({"minCount": "5"}, "minCount"),
        ({"count": "3"}, "names 4"),
        ({"properties": {"machineType": f"zones/{ZONE}/machineTypes/g2-standard-4"}}, "must be a name"),
    ],
)
def test_what_google_refuses_is_refused(gce: Gce, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(Refused, match=match):
        bulk(gce, **changes)
    assert gce.names() == []


def test_disks_of_several_vms_cannot_share_a_name(gce: Gce) -> None:
    (disk,) = instance("x")["disks"]
    named = {**disk, "initializeParams": {**disk["initializeParams"], "diskName": "one"}}
    with pytest.raises(Refused, match="disks"):
        bulk(gce, properties={"disks": [named]})


def test_a_right_that_is_missing_refuses_the_call(gce: Gce, sim: Control) -> None:
    sim.deny("compute.instances.create", **GCP)
    with pytest.raises(Refused, match=r"compute\.instances\.create"):
        bulk(gce)


def test_every_bulk_insert_of_a_refused_project_fails(gce: Gce, sim: Control) -> None:
    sim.refuse_launches("SERVICE_ACCOUNT_ACCESS_DENIED", **GCP)
    operation = bulk(gce)
    codes = [error["code"] for error in operation["error"]["errors"]]
    assert codes == ["VM_MIN_COUNT_NOT_REACHED", "SERVICE_ACCOUNT_ACCESS_DENIED"]
    assert (counts(operation), gce.names()) == ((4, 0, 4), [])
    sim.refuse_launches("forbidden", **GCP)
    with pytest.raises(Refused, match="forbidden"):
        bulk(gce)
    sim.refuse_launches(None, **GCP)
    assert "error" not in bulk(gce)
