"""What operations tell of a VM that does not show."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.leases import VmState
from workers.providers import errors
from workers.providers.gcp.ids import Id, in_region
from workers.providers.gcp.operations import accepted, fate
from workers.providers.gcp.sdk import Operation
from workers.providers.types import Vm

VM = Id("us-central1-a", "gpulease-x", "1234")


def operation(kind: str, minute: int, *codes: str, status: Any = "DONE", **more: Any) -> Operation:
    began, ended = f"2026-11-20T04:{minute:02}:00.000-08:00", f"2026-11-20T04:{minute:02}:30.000-08:00"
    given = {"operation_type": kind, "status": status, "insert_time": began, "user": "somebody@example.org", **more}
    if status == "DONE":
        given["end_time"] = ended
    if codes:
        given["error"] = {"errors": [{"code": code, "message": "Why."} for code in codes]}
    return Operation(given)


def told(*operations: Operation) -> Vm | None:
    return fate(VM, "us-central1", operations)


INSERTED = operation("insert", 0)


def test_without_operations_nothing_is_known() -> None:
    assert told() is None


def test_a_creation_without_error_proves_nothing_about_a_vm_that_does_not_show() -> None:
    assert told(INSERTED) is None


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_a_creation_at_work_is_a_vm_to_come(status: str) -> None:
    vm = told(operation("insert", 0, status=status))
    assert vm is not None
    assert (vm.state, vm.ended_at, vm.state_reason) == (VmState.PENDING, None, None)


def test_a_refused_creation_is_gone_and_says_why() -> None:
    vm = told(operation("insert", 0, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"))
    assert vm is not None
    assert (vm.state, vm.refusal) == (VmState.GONE, errors.InsufficientCapacity)
    assert vm.state_reason is not None
    assert vm.state_reason["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    assert vm.ended_at == datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("code", ["SOMETHING_NEW", "RESOURCE_OPERATION_RATE_EXCEEDED"])
def test_a_creation_that_ended_with_any_error_is_refused(code: str) -> None:
    vm = told(operation("insert", 0, code))
    assert vm is not None
    assert (vm.state, vm.refusal) == (VmState.GONE, errors.Refused)


def test_a_creation_under_a_name_in_use_proves_nothing() -> None:
    assert told(operation("insert", 0, "RESOURCE_ALREADY_EXISTS")) is None


def test_a_preempted_vm_was_interrupted_also_when_it_was_deleted_afterwards() -> None:
    taken = operation("compute.instances.preempted", 5)
    for operations in ((INSERTED, taken), (INSERTED, taken, operation("delete", 6))):
        vm = told(*operations)
        assert vm is not None
        assert (vm.state, vm.interrupted) == (VmState.GONE, True)
        assert vm.ended_at == datetime(2026, 11, 20, 12, 5, 30, tzinfo=UTC)


def test_a_vm_that_was_deleted_first_was_not_interrupted() -> None:
    vm = told(INSERTED, operation("delete", 4), operation("compute.instances.preempted", 5))
    assert vm is not None
    assert (vm.state, vm.interrupted) == (VmState.GONE, False)
    assert vm.state_reason == {"code": "delete", "message": "by somebody@example.org"}


def test_a_deletion_at_work_is_an_ending_vm_and_a_failed_one_proves_nothing() -> None:
    vm = told(INSERTED, operation("delete", 4, status="RUNNING"))
    assert vm is not None
    assert (vm.state, vm.ended_at) == (VmState.ENDING, None)
    assert told(INSERTED, operation("delete", 4, "RESOURCE_IN_USE")) is None


@pytest.mark.parametrize("text", ["", "i-0123456789abcdef0", "a:b", "a:b:0", "a:b:c", "a:b:1:2", "A:b:1", "a:b:1\n"])
def test_what_is_no_id_of_ours_is_told(text: str) -> None:
    assert Id.parse(text) is None


def test_an_id_is_read_as_it_is_written() -> None:
    assert Id.parse(str(VM)) == VM


def test_a_zone_lies_in_the_region_that_it_is_named_after() -> None:
    assert in_region("us-east1-b", "us-east1")
    assert not in_region("us-east1-b", "us-east")
    assert not in_region("us-east11-b", "us-east1")


def test_a_change_that_has_failed_already_is_raised_and_one_at_work_is_not() -> None:
    with pytest.raises(errors.ProviderQuotaExceeded, match="Why"):
        accepted(operation("setLabels", 0, "QUOTA_EXCEEDED"))
    for fine in (operation("setLabels", 0, status="RUNNING"), operation("setLabels", 0)):
        assert accepted(fine) is fine
