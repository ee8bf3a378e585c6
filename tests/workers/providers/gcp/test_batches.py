"""Parameters of instances.bulkInsert, checked against Google's own description, and what its operations tell."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from app.domain import tags
from app.domain.offerings import LISTED_MARKETS, Market
from app.domain.tokens import launch_name
from cloudsim.gce.labels import check as check_labels
from tests.cloudsim.gce.discovery import faults
from tests.workers.providers.contract.batches import BATCH, SECRET, TOKEN, slots
from tests.workers.providers.gcp.accounts import REGION, ZONE, account
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.gcp import batches, resource_tags
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.sdk import Operation
from workers.providers.types import BatchLaunched, Params

NETWORKS = ("203.0.113.0/24", "2001:db8::/32")
NAMES = [launch_name(slot.token) for slot in slots(3)]
T4 = Machine(machine_type="n1-standard-4", boot_disk="pd-balanced", gpus=1, accelerator="nvidia-tesla-t4")


def planned(size: int = 3, machine: Machine | None = None, **changes: Any) -> Params:
    machine = machine or Machine(machine_type="g2-standard-4", boot_disk="pd-balanced", gpus=1)
    settings = {key: changes.pop(key) for key in ("data_disk_gib",) if key in changes}
    of = account("http://127.0.0.1:9", None, **settings)
    params = batches.plan(spec(slot_secret=SECRET, **changes), of, machine, BATCH, TOKEN, slots(size))
    assert list(faults(params["bulk"], "BulkInsertInstanceResource")) == []
    for rule in params["firewalls"]:
        assert list(faults(rule, "Firewall")) == []
    assert json.loads(json.dumps(params)) == params
    return params


@pytest.mark.parametrize("market", LISTED_MARKETS)
@pytest.mark.parametrize("machine", [None, T4])
def test_the_parameters_fit_the_api(market: Market, machine: Machine | None) -> None:
    bulk = planned(market=market, machine=machine, data_disk_gib=100, max_seconds=3600)["bulk"]
    assert (bulk["count"], bulk["minCount"], list(bulk["perInstanceProperties"])) == ("3", "1", NAMES)
    shared = bulk["instanceProperties"]
    kinds = [shared["machineType"], *(one["initializeParams"]["diskType"] for one in shared["disks"])]
    kinds += [one["acceleratorType"] for one in shared.get("guestAccelerators", [])]
    assert not any("/" in kind for kind in kinds), "Google takes only names here"
    assert not any("diskName" in one["initializeParams"] for one in shared["disks"])
    assert batches._body(planned(market=market, machine=machine)).count == 3


def test_labels_name_the_batch_and_no_lease() -> None:
    shared = planned()["bulk"]["instanceProperties"]
    for labels in (shared["labels"], *(one["initializeParams"]["labels"] for one in shared["disks"])):
        assert check_labels(labels) == labels
        assert labels[tags.BATCH] == BATCH
        assert not {tags.LEASE, tags.ATTEMPT, tags.NAME_LABEL} & set(labels)


def test_the_labels_leave_room_for_those_of_a_slot() -> None:
    labels = {f"label-{n}": "x" for n in range(70)}
    of_batch = resource_tags.of_batch(spec(labels=labels), account("http://127.0.0.1:9", None), BATCH)
    assert len({**of_batch, **resource_tags.of_slot(owner(), "name")}) == 64


def test_the_vms_share_rules_of_the_first_slot() -> None:
    params = planned(allowed_cidrs=NETWORKS)
    tag, of_all = params["bulk"]["instanceProperties"]["tags"]["items"]
    assert (tag, of_all) == (launch_name(TOKEN), "gpulease-vm")
    assert [rule["targetTags"] for rule in params["separation"]] == [[of_all]]
    for rule in params["firewalls"]:
        assert rule["targetTags"] == [tag]
        found = json.loads(rule["description"])
        assert (found[tags.BATCH], tags.attempt_key(found)) == (BATCH, ("lease_0", 1))


def test_a_full_call_fits_into_metadata_and_every_name_has_its_slot() -> None:
    params = planned(1_000)
    (stored,) = (
        item["value"]
        for item in params["bulk"]["instanceProperties"]["metadata"]["items"]
        if item["key"] == resource_tags.SLOTS
    )
    assert len(stored) < 20_000
    labels = {tags.BATCH: BATCH}
    for slot in (0, 1, 499, 999):
        assert resource_tags.batch_of(labels, stored, params["names"][slot]) == (BATCH, slot)


@pytest.mark.parametrize(
    ("labels", "stored", "name"),
    [
        ({}, resource_tags.slots_metadata(NAMES), NAMES[0]),
        ({tags.BATCH: BATCH}, None, NAMES[0]),
        ({tags.BATCH: BATCH}, "", NAMES[0]),
        ({tags.BATCH: BATCH}, resource_tags.slots_metadata(NAMES[1:]), NAMES[0]),
        ({tags.BATCH: BATCH}, "x" + resource_tags.slots_metadata(NAMES), NAMES[0]),
        ({tags.BATCH: BATCH}, resource_tags.slots_metadata(NAMES), "instance-1"),
    ],
)
def test_a_vm_that_the_metadata_does_not_name_has_no_slot(
    labels: Mapping[str, str], stored: str | None, name: str
) -> None:
    assert resource_tags.batch_of(labels, stored, name) is None


def test_digits_that_stand_across_two_slots_are_no_slot() -> None:
    name = "gpl-123456789012"
    stored = "00000" + "123456789012" + "0000000" + "123456789012"
    assert resource_tags.batch_of({tags.BATCH: BATCH}, stored, name) == (BATCH, 2)


def parent(created: int | None = None, *, status: Any = "RUNNING") -> Operation:
    counts = {} if created is None else {f"zones/{ZONE}": {"created_vm_count": created}}
    return Operation(
        operation_type="bulkInsert",
        operation_group_id="group",
        status=status,
        instances_bulk_insert_operation_metadata={"per_location_status": counts},
    )


def insert(name: str, *codes: str, status: Any = "RUNNING") -> Operation:
    found: dict[str, Any] = {"operation_type": "insert", "status": "DONE" if codes else status, "target_id": 77}
    if codes:
        found["error"] = {"errors": [{"code": code, "message": "Why."} for code in codes]}
    return Operation(target_link=f"zones/{ZONE}/instances/{name}", **found)


def told(of: Operation, *inserts: Operation) -> BatchLaunched:
    by_name = {one.target_link.rpartition("/")[2]: one for one in inserts}
    return batches.outcome(planned(), REGION, of, by_name)


def test_vms_are_known_by_name_and_the_others_are_not_known_yet() -> None:
    batch = told(parent(), insert(NAMES[2]), insert(NAMES[0], status="DONE"))
    assert {slot: (vm.id.split(":")[1], vm.batch) for slot, vm in batch.vms.items()} == {
        0: (NAMES[0], (BATCH, 0)),
        2: (NAMES[2], (BATCH, 2)),
    }
    assert batch.missing == {}
    assert batch.vms[0].launch_identity == NAMES[0]
    assert batch.vms[0].instance_type == "g2-standard-4"


def test_a_refused_vm_has_the_error_of_its_operation() -> None:
    batch = told(parent(), insert(NAMES[0]), insert(NAMES[1], "QUOTA_EXCEEDED"), insert(NAMES[2], "SOMETHING_NEW"))
    assert {slot: type(error) for slot, error in batch.missing.items()} == {
        1: errors.ProviderQuotaExceeded,
        2: errors.Refused,
    }


def test_a_name_that_is_taken_is_not_a_refusal() -> None:
    batch = told(parent(), insert(NAMES[0]), insert(NAMES[1], "RESOURCE_ALREADY_EXISTS"))
    assert (sorted(batch.vms), batch.missing) == ([0], {})


def test_a_finished_call_that_counts_no_more_vms_refuses_the_other_slots() -> None:
    batch = told(parent(1, status="DONE"), insert(NAMES[1], status="DONE"))
    assert {slot: type(error) for slot, error in batch.missing.items()} == dict.fromkeys(
        (0, 2), errors.InsufficientCapacity
    )


def failed_parent(*codes: str) -> Operation:
    of: Any = parent(0, status="DONE")
    of.error = {"errors": [{"code": code, "message": "Why."} for code in codes]}
    failed: Operation = of
    return failed


def test_a_failed_call_is_explained_by_its_inserts() -> None:
    of = failed_parent("VM_MIN_COUNT_NOT_REACHED", "INVALID_ARGUMENT")
    batch = told(of, insert(NAMES[0], "ZONE_RESOURCE_POOL_EXHAUSTED"), insert(NAMES[1], "QUOTA_EXCEEDED"))
    assert {slot: error.code for slot, error in batch.missing.items()} == {
        0: "ZONE_RESOURCE_POOL_EXHAUSTED",
        1: "QUOTA_EXCEEDED",
        2: "ZONE_RESOURCE_POOL_EXHAUSTED",
    }


def test_a_failed_call_without_inserts_is_explained_by_its_own_cause() -> None:
    batch = told(failed_parent("VM_MIN_COUNT_NOT_REACHED", "QUOTA_EXCEEDED"))
    assert {(slot, error.code) for slot, error in batch.missing.items()} == {(n, "QUOTA_EXCEEDED") for n in range(3)}
    batch = told(failed_parent("VM_MIN_COUNT_NOT_REACHED"))
    assert {type(error) for error in batch.missing.values()} == {errors.InsufficientCapacity}


def test_a_name_that_is_taken_is_no_refusal_in_a_finished_call() -> None:
    batch = told(parent(0, status="DONE"), insert(NAMES[1], "RESOURCE_ALREADY_EXISTS"))
    assert sorted(batch.missing) == [0, 2]


@pytest.mark.parametrize("of", [parent(2, status="DONE"), parent(1), parent(status="DONE")])
def test_a_slot_that_may_have_a_vm_is_never_refused(of: Operation) -> None:
    assert told(of, insert(NAMES[1], status="DONE")).missing == {}
