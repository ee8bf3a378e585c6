"""What every documented error code of AWS means: after RunInstances, and after any other call."""

from importlib import import_module
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from tests.workers.providers.error_tables import groups, listed, wrong
from workers.providers.aws.error_codes import CODES
from workers.providers.aws.errors import creating, translate
from workers.providers.errors import OutcomeUnknown, ProviderError, Throttled

standard: Any = import_module("botocore.retries.standard")  # its stubs leave the lists out

CALLS = {
    "sts": ("AssumeRole", "GetCallerIdentity"),
    "ssm": ("GetParameter",),
    "service-quotas": ("ListServiceQuotas",),
}
"""Calls of other services on which an offering or an account depends."""

OF_REQUESTS = {
    "IllegalArgumentException",
    "InvalidPaginationTokenException",
    "MalformedPolicyDocument",
    "PackedPolicyTooLarge",
}
"""Codes for requests that gpulease never makes: no policy, no page token of its own."""


def answered(code: str, status: int, operation: str = "RunInstances") -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "No."}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def after_a_launch(code: str, status: int) -> ProviderError:
    with pytest.raises(ProviderError) as caught, creating():
        raise answered(code, status)
    return caught.value


def test_every_code_means_for_a_launch_what_the_file_says() -> None:
    assert wrong(groups("aws"), after_a_launch) == {}


def test_every_code_means_for_other_calls_what_the_file_says() -> None:
    found = wrong(
        groups("aws"), lambda code, status: translate(answered(code, status, "DescribeInstances")), elsewhere=True
    )
    assert found == {}


def test_the_file_has_every_code_of_the_adapters_table() -> None:
    assert listed("aws") >= CODES.keys()


def test_what_the_sdk_repeats_is_never_a_refusal() -> None:
    """AWS sends time-outs with HTTP status 400, which otherwise means a refusal."""
    transient = set(standard.TransientRetryableChecker._TRANSIENT_ERROR_CODES)
    throttled = set(standard.ThrottledRetryableChecker._THROTTLED_ERROR_CODES)
    assert transient | throttled <= listed("aws")
    assert all(isinstance(after_a_launch(code, 400), OutcomeUnknown) for code in transient)
    assert all(isinstance(after_a_launch(code, 400), OutcomeUnknown | Throttled) for code in throttled)


@pytest.mark.parametrize("service", CALLS)
def test_every_error_in_the_sdks_model_of_a_call_is_known(service: str) -> None:
    model: Any = botocore.session.get_session().get_service_model(service)
    codes = {str(shape.error_code) for call in CALLS[service] for shape in model.operation_model(call).error_shapes}
    assert codes - listed("aws") - OF_REQUESTS == set()
