"""What every documented error code of Azure means: after the PUT that makes a VM, and after any other call."""

import pytest
from azure.core import exceptions as core

from tests.workers.providers.error_tables import groups, listed, wrong
from workers.providers.azure.errors import CODES, creating, translate
from workers.providers.errors import (
    InvalidSpec,
    NotOffered,
    NotPermitted,
    NotReady,
    OutcomeUnknown,
    ProviderError,
    ProviderQuotaExceeded,
    Throttled,
)


def answered(code: str, status: int, message: str = "No.", *details: str) -> core.HttpResponseError:
    error = core.HttpResponseError(message)
    error.status_code, error.reason = status, "Some reason"
    if code:
        inner = [{"code": detail, "message": message} for detail in details]
        error.error = core.ODataV4Format({"code": code, "message": message, "details": inner})
    return error


def after_a_launch(code: str, status: int, *details: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught, creating("gpulease"):
        raise answered(code, status, "No.", *details)
    return caught.value


def test_every_code_means_for_a_launch_what_the_file_says() -> None:
    assert wrong(groups("azure"), after_a_launch) == {}


def test_every_code_means_for_other_calls_what_the_file_says() -> None:
    assert wrong(groups("azure"), lambda code, status: translate(answered(code, status)), elsewhere=True) == {}


def test_the_file_has_every_code_of_the_adapters_table() -> None:
    assert {code.lower() for code in listed("azure")} >= {code.lower() for code in CODES}


def test_the_case_of_a_code_does_not_count() -> None:
    for code in ("OverConstrainedAllocationRequest", "OverconstrainedAllocationRequest", "allocationfailed"):
        assert type(after_a_launch(code, 409)).__name__ == "InsufficientCapacity"


def test_a_network_resource_that_is_being_changed_is_no_throttling() -> None:
    """As Azure answers while a network security group is in the state `Updating`."""
    error = after_a_launch("RetryableError", 429, "ReferencedResourceNotProvisioned")
    assert (type(error), error.code) == (NotReady, "ReferencedResourceNotProvisioned")
    assert type(after_a_launch("RetryableError", 429)) is NotReady
    assert type(after_a_launch("RetryableError", 429, "TooManyRequests")) is Throttled


@pytest.mark.parametrize("status", [409, 429])
def test_another_operation_on_the_vm_may_be_an_earlier_create_call(status: int) -> None:
    assert type(after_a_launch("AnotherOperationInProgress", status)) is OutcomeUnknown
    assert type(after_a_launch("RetryableError", status, "AnotherOperationInProgress")) is OutcomeUnknown
    assert type(translate(answered("AnotherOperationInProgress", status))) is NotReady


@pytest.mark.parametrize("status", [500, 503])
def test_a_retryable_error_of_the_server_is_an_unknown_outcome(status: int) -> None:
    assert type(after_a_launch("RetryableError", status)) is OutcomeUnknown


def test_an_operation_that_is_not_allowed_may_mean_a_quota() -> None:
    exceeded = answered("OperationNotAllowed", 409, "exceeding approved Total Regional Cores quota")
    with pytest.raises(ProviderQuotaExceeded), creating("gpulease"):
        raise exceeded


@pytest.mark.parametrize(
    ("code", "message", "verdict"),
    [
        ("BadRequest", "… the feature 'Microsoft.Compute/UseStandardSecurityType' is registered.", NotPermitted),
        ("BadRequest", "The body is not valid.", InvalidSpec),
        ("InvalidParameter", "The VM size Standard_X is not available in the current region.", NotOffered),
        ("InvalidParameter", "The value of parameter x is invalid.", InvalidSpec),
    ],
)
def test_the_message_tells_one_cause_of_a_shared_code(code: str, message: str, verdict: type[ProviderError]) -> None:
    assert type(translate(answered(code, 400, message), creating=True)) is verdict
