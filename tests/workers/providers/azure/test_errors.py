"""A code of each class of error, through the real SDK and a real socket. `test_error_codes.py` has every code."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.domain.leases import VmState
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import SECURITY_GROUPS, account
from tests.workers.providers.azure.answering import Answer, answering
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.azure.adapter import AzureProvider

VM = "gpulease-0:00000000-0000-4000-8000-000000000000"

ROWS = [
    (errors.InsufficientCapacity, "AllocationFailed"),
    (errors.NotOffered, "SkuNotAvailable"),
    (errors.ProviderQuotaExceeded, "QuotaExceeded"),
    (errors.OutcomeUnknown, "InternalServerError"),
    (errors.CredentialsRejected, "AuthorizationFailed"),
    (errors.InvalidSpec, "BadRequest"),
    (errors.InvalidSpec, "ResourceNotFound"),
]


def provider(url: str, call_timeout: float = 60.0) -> AzureProvider:
    return AzureProvider(
        account(url, network_security_group_ids=SECURITY_GROUPS), read_settings(call_timeout=call_timeout)
    )


@pytest.fixture(scope="module")
def stub() -> Iterator[tuple[Answer, AzureProvider]]:
    with answering() as answer:
        yield answer, provider(answer.url)


@pytest.fixture
def answer(stub: tuple[Answer, AzureProvider]) -> Answer:
    stub[0].asked.clear()
    stub[0].first.clear()
    return stub[0]


@pytest.fixture
def azure(stub: tuple[Answer, AzureProvider]) -> AzureProvider:
    return stub[1]


def launch(azure: AzureProvider) -> errors.ProviderError:
    with pytest.raises(errors.ProviderError) as caught:
        azure.launch(REGION, azure.plan(spec()))
    return caught.value


@pytest.mark.parametrize(("kind", "code"), ROWS)
@pytest.mark.parametrize("status", [400, 409, 500])
def test_a_refused_launch_says_what_to_do(
    answer: Answer, azure: AzureProvider, kind: type[errors.ProviderError], code: str, status: int
) -> None:
    answer.error(code, status)
    error = launch(azure)
    assert type(error) is kind
    assert error.code == code
    creations = [one for one in answer.asked if one[0] == "PUT"]
    assert len(creations) == 1, "nothing is repeated inside the SDK"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("results in exceeding approved standardNDASv4_A100Family Cores quota", errors.ProviderQuotaExceeded),
        ("exceeding approved Total Regional Cores quota. Additional Required: 96", errors.ProviderQuotaExceeded),
        ("exceeding approved LowPriorityCores limit", errors.ProviderQuotaExceeded),
        ("The virtual machine is not in a state that allows a restart", errors.InvalidSpec),
    ],
)
def test_a_code_with_two_meanings_is_told_by_its_message(
    answer: Answer, azure: AzureProvider, message: str, kind: type[errors.ProviderError]
) -> None:
    answer.error("OperationNotAllowed", 409, message)
    assert type(launch(azure)) is kind


UNLISTED = [
    (400, errors.InvalidSpec),
    (403, errors.NotPermitted),
    (404, errors.InvalidSpec),
    (408, errors.OutcomeUnknown),
    (500, errors.OutcomeUnknown),
    (503, errors.OutcomeUnknown),
]
"""A provider that rejects a create call with a code that is not in the table has created nothing."""


@pytest.mark.parametrize("code", ["SomethingNew", "Conflict", ""])
@pytest.mark.parametrize(("status", "kind"), UNLISTED)
def test_the_status_decides_about_an_unlisted_code_of_a_create_call(
    answer: Answer, azure: AzureProvider, code: str, status: int, kind: type[errors.ProviderError]
) -> None:
    answer.error(code, status)
    assert type(launch(azure)) is kind


@pytest.mark.parametrize("code", ["SomethingNew", "Conflict", ""])
@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
def test_an_unlisted_code_of_another_call_is_an_unknown_outcome(
    answer: Answer, azure: AzureProvider, code: str, status: int
) -> None:
    answer.error(code, status)
    with pytest.raises(errors.OutcomeUnknown):
        list(azure.list(frozenset({REGION}), "x"))


def vm(region: str) -> dict[str, Any]:
    """A record of the group's listing, of a VM that the listing of statuses does not have."""
    properties = {"vmId": VM.partition(":")[2], "provisioningState": "Succeeded", "hardwareProfile": {"vmSize": "s"}}
    tags = {"gpulease-installation": "x"}
    return {"id": f"/vms/{region}", "name": region, "location": region, "tags": tags, "properties": properties}


def list_with_one_view_that_fails(answer: Answer, status: int, code: str, *names: str) -> None:
    """The listing of statuses lacks both VMs, and the first one's instance view cannot be read."""
    documents: list[dict[str, Any]] = [{"value": [vm(name) for name in names]}, {"value": []}]
    answer.first = [(200, json.dumps(one).encode()) for one in documents]
    answer.first.append((status, json.dumps({"error": {"code": code, "message": "No."}}).encode()))
    answer.json({"statuses": [{"code": "PowerState/running"}]})


def test_a_vm_whose_state_cannot_be_read_is_neither_running_nor_lost(answer: Answer, azure: AzureProvider) -> None:
    list_with_one_view_that_fails(answer, 503, "ServiceUnavailable", REGION, REGION)
    (page,) = azure.list(frozenset({REGION}), "x")
    assert [one.state for one in page.vms] == [VmState.PENDING, VmState.RUNNING]
    assert not page.failed


def test_a_vm_that_cannot_be_read_hides_its_region_and_no_other_vm(answer: Answer, azure: AzureProvider) -> None:
    answer.json({"value": [vm(REGION) | {"properties": {}}, vm(REGION)]})
    (page,) = azure.list_everywhere("x")
    assert [one.region for one in page.vms] == [REGION]
    assert {region: error.code for region, error in page.failed.items()} == {REGION: "MalformedAnswer"}


def test_what_cannot_be_told_of_one_region_stops_a_listing_of_no_other(answer: Answer, azure: AzureProvider) -> None:
    list_with_one_view_that_fails(answer, 429, "TooManyRequests", REGION, "westeurope")
    (page,) = azure.list(frozenset({REGION, "westeurope"}), "x")
    assert [one.region for one in page.vms] == ["westeurope"]
    assert [(region, error.code) for region, error in page.failed.items()] == [(REGION, "TooManyRequests")]
    list_with_one_view_that_fails(answer, 429, "TooManyRequests", REGION, REGION)
    with pytest.raises(errors.Throttled):
        list(azure.list(frozenset({REGION}), "x"))
    answer.first = []


def test_a_conflict_without_a_known_code_means_that_something_has_the_name(
    answer: Answer, azure: AzureProvider
) -> None:
    conflict = json.dumps({"error": {"code": "Conflict", "message": "exists"}}).encode()
    for status in (409, 412):
        answer.first.append((status, conflict))
        answer.error("ResourceNotFound", 404)
        error = launch(azure)
        assert type(error) is errors.OutcomeUnknown, "it exists and does not show: look again, create nothing else"
        assert [one[0] for one in answer.asked[-2:]] == ["PUT", "GET"]


def test_too_many_requests_is_told_by_the_status_whatever_the_code(answer: Answer, azure: AzureProvider) -> None:
    for code in ("TooManyRequests", "OperationNotAllowed", "AllocationFailed", "SomethingNew"):
        answer.error(code, 429, Retry_After="7")
        error = launch(azure)
        assert isinstance(error, errors.Throttled)
        assert error.retry_after == 7.0
    answer.error("TooManyRequests", 429)
    error = launch(azure)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after is None


def test_an_unauthorized_call_is_a_matter_of_credentials_whatever_the_code(
    answer: Answer, azure: AzureProvider
) -> None:
    answer.error("SomethingNew", 401)
    assert isinstance(launch(azure), errors.CredentialsRejected)


@pytest.mark.parametrize("body", ["", "<html>Bad Gateway</html>", '{"value"', "[]", "{}", "null"])
@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_that_cannot_be_read_is_an_unknown_outcome(
    answer: Answer, azure: AzureProvider, body: str, status: int
) -> None:
    answer.say(status, body)
    assert type(launch(azure)) is errors.OutcomeUnknown


@pytest.mark.parametrize("body", ["<html><body>Please log in to the network</body></html>", "{}"])
def test_an_answer_of_something_else_is_never_an_empty_listing(answer: Answer, azure: AzureProvider, body: str) -> None:
    answer.say(200, body)
    questions: dict[str, Callable[[], object]] = {
        "identity": azure.identity,
        "list": lambda: list(azure.list(frozenset({REGION}), "x")),
        "get": lambda: azure.get(REGION, [VM]),
        "get of many": lambda: azure.get(REGION, [f"{VM[:-2]}{n}" for n in range(10, 40)]),
        "find": lambda: azure.find(REGION, "f" * 64, owner()),
        "ready": lambda: azure.ready(REGION, [VM]),
        "leftovers": lambda: azure.leftovers(REGION, "x", None),
        "offered": lambda: azure.offered(REGION),
        "service_quotas": lambda: azure.service_quotas(REGION),
    }
    for ask in questions.values():
        with pytest.raises(errors.OutcomeUnknown):
            ask()


def test_a_vm_that_is_not_found_is_unknown_but_a_missing_group_is_an_error(
    answer: Answer, azure: AzureProvider
) -> None:
    answer.error("ResourceNotFound", 404)
    assert azure.get(REGION, [VM]) == {VM: None}
    azure.terminate(REGION, [VM])
    answer.error("ResourceGroupNotFound", 404)
    for ask in (lambda: azure.get(REGION, [VM]), lambda: azure.terminate(REGION, [VM]).require()):
        with pytest.raises(errors.NotFound):
            ask()


def test_a_message_is_short_and_says_what_to_do(answer: Answer, azure: AzureProvider) -> None:
    answer.error("AuthorizationFailed", 403, "The client does not have authorization. " + "x" * 5000)
    error = launch(azure)
    assert "grant the actions" in error.message
    assert len(error.message) < 600


def test_a_refused_connection_is_told_apart_because_nothing_was_sent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = listener.getsockname()[1]
    error = launch(provider(f"http://127.0.0.1:{closed}"))
    assert type(error) is errors.Unreachable


def test_a_name_that_is_not_known_is_told_apart_because_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    azure = provider("http://localhost:1")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert type(launch(azure)) is errors.Unreachable


def test_no_answer_in_time_is_an_unknown_outcome() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        azure = provider(f"http://127.0.0.1:{listener.getsockname()[1]}", call_timeout=0.2)
        assert type(launch(azure)) is errors.OutcomeUnknown


def test_a_connection_cut_before_the_answer_is_an_unknown_outcome(answer: Answer, azure: AzureProvider) -> None:
    answer.say(200, '{"id": "half of it', Content_Length="4000")
    error = launch(provider(answer.url, call_timeout=0.2))
    assert type(error) is errors.OutcomeUnknown


@pytest.mark.parametrize(
    ("code", "status", "message", "kind"),
    [
        ("ReadOnlyDisabledSubscription", 409, "The subscription is disabled", errors.AccountBlocked),
        (
            "MissingSubscriptionRegistration",
            409,
            "The subscription is not registered to use namespace 'Microsoft.Compute'.",
            errors.AccountBlocked,
        ),
        (
            "MissingSubscriptionRegistration",
            409,
            "The subscription is not registered to use namespace 'Microsoft.MarketplaceOrdering'.",
            errors.CredentialsRejected,
        ),
        ("ResourceGroupNotFound", 404, "Resource group 'gpulease' could not be found.", errors.AccountBlocked),
        ("ResourceGroupNotFound", 404, "Resource group 'images' could not be found.", errors.InvalidSpec),
    ],
)
def test_a_subscription_that_may_create_nothing_is_told_apart(
    answer: Answer, azure: AzureProvider, code: str, status: int, message: str, kind: type[errors.ProviderError]
) -> None:
    answer.error(code, status, message)
    error = launch(azure)
    assert type(error) is kind
    assert error.code == code


@pytest.mark.parametrize(("code", "may"), [("ScopeLocked", False), ("ImageNotFound", True), ("BadRequest", True)])
def test_a_refusal_says_whether_the_image_may_be_the_cause(
    answer: Answer, azure: AzureProvider, code: str, *, may: bool
) -> None:
    answer.error(code, 400)
    error = launch(azure)
    assert isinstance(error, errors.Refused)
    assert error.may_concern_image is may
