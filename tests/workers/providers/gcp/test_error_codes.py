"""What every documented error of Compute Engine means: in an answer to instances.insert, in its operation, elsewhere."""

import pytest
from google.api_core import exceptions as google
from google.rpc import code_pb2

from tests.workers.providers.error_tables import groups, listed, wrong
from workers.providers.errors import (
    InsufficientCapacity,
    InvalidSpec,
    NotOffered,
    ProviderError,
    ProviderQuotaExceeded,
)
from workers.providers.gcp.errors import CODES, REASONS, STATUSES, creating, translate, translated
from workers.providers.gcp.operations import insert_failure, leaves_doubt
from workers.providers.gcp.sdk import Operation

ANSWERS = [group for group in groups("gcp") if not group.operation]
OPERATIONS = [group for group in groups("gcp") if group.operation]


def answered(reason: str, status: int) -> google.GoogleAPICallError:
    errors = [{"reason": reason}] if reason else []
    error: google.GoogleAPICallError = google.from_http_status(status, "No.", errors=errors)
    return error


def after_an_insert(reason: str, status: int) -> ProviderError:
    with pytest.raises(ProviderError) as caught, creating(), translated():
        raise answered(reason, status)
    return caught.value


def after_its_operation(code: str, _status: int) -> ProviderError:
    failure = insert_failure(failed((code, "No.")))
    assert failure is not None
    return failure


def failed(*errors: tuple[str, str]) -> Operation:
    told = [{"code": code, "message": message} for code, message in errors]
    return Operation(status=Operation.Status.DONE, error={"errors": told})


def test_every_answer_means_for_a_launch_what_the_file_says() -> None:
    assert wrong(ANSWERS, after_an_insert) == {}


def test_every_answer_means_for_other_calls_what_the_file_says() -> None:
    assert wrong(ANSWERS, lambda reason, status: translate(answered(reason, status)), elsewhere=True) == {}


def test_every_error_of_a_finished_insert_means_what_the_file_says() -> None:
    assert wrong(OPERATIONS, after_its_operation) == {}


def test_the_file_has_every_code_of_the_adapters_tables() -> None:
    assert listed("gcp") >= REASONS.keys() | {f"HTTP {status}" for status in STATUSES}
    assert listed("gcp", operation=True) >= CODES.keys()


def test_the_file_has_every_status_and_code_that_the_sdk_knows() -> None:
    statuses = {f"HTTP {int(status)}" for status in google._HTTP_CODE_TO_EXCEPTION}
    assert listed("gcp") >= statuses
    assert listed("gcp", operation=True) >= set(code_pb2.Code.keys()) - {"OK"}


VM_NOT_FOUND = "The resource 'projects/p/zones/us-central1-a/instances/gpulease-x' was not found"
DISK_NOT_FOUND = "The resource 'projects/p/zones/us-central1-a/disks/x' was not found"
SUMMARY = ("VM_MIN_COUNT_NOT_REACHED", "Requested minimum count of 1 VMs could not be created.")


@pytest.mark.parametrize(
    ("errors", "kind", "doubt"),
    [
        ([("RESOURCE_NOT_FOUND", VM_NOT_FOUND)], InsufficientCapacity, True),
        ([("INTERNAL_ERROR", "Internal error.")], InsufficientCapacity, True),
        ([("RESOURCE_NOT_FOUND", DISK_NOT_FOUND)], InvalidSpec, False),
        ([SUMMARY], InsufficientCapacity, False),
        ([SUMMARY, ("QUOTA_EXCEEDED", "Quota.")], ProviderQuotaExceeded, False),
        ([SUMMARY, ("QUOTA_EXCEEDED", "Quota."), ("INTERNAL_ERROR", "Internal error.")], ProviderQuotaExceeded, True),
    ],
)
def test_a_summary_is_no_cause_and_some_errors_may_leave_a_vm(
    errors: list[tuple[str, str]], kind: type[ProviderError], *, doubt: bool
) -> None:
    operation = failed(*errors)
    assert (type(insert_failure(operation)), leaves_doubt(operation)) == (kind, doubt)


@pytest.mark.parametrize("code", ["RESOURCE_NOT_FOUND", "INVALID_ARGUMENT"])
@pytest.mark.parametrize(
    "message",
    [
        "The resource 'projects/p/zones/z/acceleratorTypes/nvidia-l4' was not found",
        "Invalid value for field 'zone': 'us-central1-z'. Unknown zone.",
    ],
)
def test_what_the_zone_lacks_is_not_offered(code: str, message: str) -> None:
    assert type(insert_failure(failed((code, message)))) is NotOffered
