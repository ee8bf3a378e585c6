"""What every documented error of Compute Engine means: in an answer to instances.insert, in its operation, elsewhere."""

import pytest
from google.api_core import exceptions as google
from google.rpc import code_pb2

from tests.workers.providers.error_tables import groups, listed, wrong
from workers.providers.errors import ProviderError
from workers.providers.gcp.errors import CODES, REASONS, STATUSES, creating, translate, translated
from workers.providers.gcp.operations import inserted
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
    errors = {"errors": [{"code": code, "message": "No."}]}
    with pytest.raises(ProviderError) as caught:
        inserted(Operation(status=Operation.Status.DONE, error=errors))
    return caught.value


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
