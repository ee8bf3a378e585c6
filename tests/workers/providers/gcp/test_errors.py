"""A code of each class of error, through the real SDK and a real socket. `test_error_codes.py` has every code."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.domain.leases import VmState
from tests.workers.providers.gcp.accounts import REGION, provider
from tests.workers.providers.gcp.answering import Answer, answering
from tests.workers.providers.gcp.specs import VM_ID, spec
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.gcp import groups
from workers.providers.gcp.adapter import GcpProvider

KNOWN_CODES = [
    (errors.InsufficientCapacity, "ZONE_RESOURCE_POOL_EXHAUSTED"),
    (errors.ProviderQuotaExceeded, "QUOTA_EXCEEDED"),
    (errors.NotPermitted, "CONDITION_NOT_MET"),
    (errors.Refused, "SOMETHING_NEW"),
    (errors.InvalidSpec, "INVALID_ARGUMENT"),
]
KNOWN_ANSWERS = [
    (errors.InsufficientCapacity, 503, "insufficientCapacity"),
    (errors.InsufficientCapacity, 400, "insufficientCapacity"),
    (errors.ProviderQuotaExceeded, 403, "quotaExceeded"),
    (errors.Throttled, 403, "rateLimitExceeded"),
    (errors.Throttled, 429, "rateLimitExceeded"),
    (errors.Throttled, 429, "somethingNew"),
    (errors.OutcomeUnknown, 500, "internalError"),
    (errors.OutcomeUnknown, 502, ""),
    (errors.OutcomeUnknown, 503, "backendError"),
    (errors.CredentialsRejected, 401, "authError"),
    (errors.CredentialsRejected, 403, "forbidden"),
    (errors.CredentialsRejected, 403, "somethingNew"),
    (errors.InvalidSpec, 400, "invalid"),
    (errors.InvalidSpec, 400, "somethingNew"),
    (errors.InvalidSpec, 404, "notFound"),
    (errors.NotReady, 400, "resourceNotReady"),
    (errors.TokenConflict, 409, "alreadyExists"),
    (errors.NotPermitted, 412, "conditionNotMet"),
    (errors.NotPermitted, 412, ""),
    (errors.OutcomeUnknown, 418, "somethingNew"),
]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Answer, GcpProvider]]:
    with answering() as answer:
        yield answer, provider(answer.url, tmp_path_factory.mktemp("gcp"))


@pytest.fixture
def answer(stub: tuple[Answer, GcpProvider]) -> Answer:
    stub[0].calls.clear()
    return stub[0]


@pytest.fixture
def gcp(stub: tuple[Answer, GcpProvider]) -> GcpProvider:
    return stub[1]


def launch(gcp: GcpProvider) -> errors.ProviderError:
    with pytest.raises(errors.ProviderError) as caught:
        gcp.launch(REGION, gcp.plan(spec()) | {groups.SEPARATION: []})
    return caught.value


@pytest.mark.parametrize(("kind", "code"), KNOWN_CODES)
def test_a_launch_refused_inside_its_operation_says_what_to_do(
    answer: Answer, gcp: GcpProvider, kind: type[errors.ProviderError], code: str
) -> None:
    answer.operation(code)
    error = launch(gcp)
    assert type(error) is kind
    assert error.code == code
    assert f"About {code}." in error.message
    assert len(answer.calls) == 1


@pytest.mark.parametrize(("kind", "status", "reason"), KNOWN_ANSWERS)
def test_a_launch_refused_in_the_answer_says_what_to_do(
    answer: Answer, gcp: GcpProvider, kind: type[errors.ProviderError], status: int, reason: str
) -> None:
    answer.error(status, reason)
    error = launch(gcp)
    assert type(error) is kind
    assert error.code == (reason or str(status))
    assert len(answer.calls) == (1 if status != 401 else 3), "nothing but a refused token is repeated inside the SDK"


def test_an_insert_operation_that_failed_without_a_code_is_a_refusal(answer: Answer, gcp: GcpProvider) -> None:
    answer.operation(httpErrorStatusCode=503, httpErrorMessage="SERVICE UNAVAILABLE")
    assert type(launch(gcp)) is errors.Refused


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid value for field 'machineType': Machine type with name 'x' does not exist in zone 'z'."),
        (404, "The resource 'projects/p/zones/z/machineTypes/x' was not found"),
        (404, "The resource 'projects/p/zones/z/acceleratorTypes/x' was not found"),
        (400, "Invalid value for field 'zone': 'z'. Unknown zone."),
    ],
)
def test_a_type_that_the_zone_does_not_have_is_not_offered(
    answer: Answer, gcp: GcpProvider, status: int, message: str
) -> None:
    answer.error(status, "invalid" if status == 400 else "notFound", message)
    assert type(launch(gcp)) is errors.NotOffered


@pytest.mark.parametrize("body", ["", "<html>Bad Gateway</html>", "{", "[]", "{}", '{"kind": "something#else"}', "\0"])
@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_that_cannot_be_read_is_an_unknown_outcome(
    answer: Answer, gcp: GcpProvider, body: str, status: int
) -> None:
    answer.say(status, body)
    assert type(launch(gcp)) is errors.OutcomeUnknown


def test_an_operation_that_names_no_vm_is_an_unknown_outcome(answer: Answer, gcp: GcpProvider) -> None:
    answer.json({"kind": "compute#operation", "status": "RUNNING"})
    assert type(launch(gcp)) is errors.OutcomeUnknown


def test_an_answer_of_something_else_is_never_an_empty_listing(answer: Answer, gcp: GcpProvider) -> None:
    questions: dict[str, Callable[[], object]] = {
        "identity": gcp.identity,
        "list": lambda: list(gcp.list(frozenset({REGION}), "x")),
        "get": lambda: gcp.get(REGION, [VM_ID]),
        "find": lambda: gcp.find(REGION, "f" * 64, owner()),
        "ready": lambda: gcp.ready(REGION, [VM_ID]),
        "interruptions": lambda: gcp.interruptions(frozenset({REGION}), "x"),
        "leftovers": lambda: gcp.leftovers(REGION, "x", None),
        "offered": lambda: gcp.offered(REGION),
        "service_quotas": lambda: gcp.service_quotas(REGION),
        "image": lambda: gcp.image(REGION),
    }
    for body in ("<html><body>Please log in to the network</body></html>", "{}"):
        answer.say(200, body)
        for ask in questions.values():
            with pytest.raises(errors.OutcomeUnknown):
                ask()


def test_a_list_that_is_not_complete_as_a_whole_is_an_unknown_outcome(answer: Answer, gcp: GcpProvider) -> None:
    warning = {"code": "UNREACHABLE", "message": "Some scopes."}
    answer.json({"kind": "compute#instanceAggregatedList", "items": {}, "warning": warning})
    with pytest.raises(errors.OutcomeUnknown, match="Some scopes"):
        list(gcp.list(frozenset({REGION}), "x"))
    answer.json({"kind": "compute#instanceAggregatedList", "items": {}, "unreachables": [f"regions/{REGION}"]})
    with pytest.raises(errors.OutcomeUnknown, match="unreachable"):
        list(gcp.list(frozenset({REGION}), "x"))


def test_a_vm_in_a_state_that_nobody_knows_is_neither_running_nor_lost(answer: Answer, gcp: GcpProvider) -> None:
    strange = {"name": "x", "id": "1", "zone": f"zones/{REGION}-a", "status": "DREAMING"}
    known = {"name": "y", "id": "2", "zone": f"zones/{REGION}-a", "status": "RUNNING"}
    there = {f"zones/{REGION}-a": {"instances": [strange, known]}}
    answer.json({"kind": "compute#instanceAggregatedList", "items": there})
    (page,) = gcp.list(frozenset({REGION}), "x")
    assert [vm.state for vm in page.vms] == [VmState.PENDING, VmState.RUNNING]


def test_a_vm_that_cannot_be_read_hides_its_zone_and_no_other_vm(answer: Answer, gcp: GcpProvider) -> None:
    unread = {"name": "x", "id": "1", "zone": f"zones/{REGION}-a"}
    known = {"name": "y", "id": "2", "zone": f"zones/{REGION}-a", "status": "RUNNING"}
    there = {f"zones/{REGION}-a": {"instances": [unread, known]}}
    answer.json({"kind": "compute#instanceAggregatedList", "items": there})
    for (page,) in (gcp.list_everywhere("x"), gcp.list(frozenset({REGION}), "x")):
        assert [vm.id for vm in page.vms] == [f"{REGION}-a:y:2"]
        assert (page.unreachable, page.failed) == ({f"{REGION}-a"}, {})


def test_a_vm_that_cannot_be_read_is_left_out_of_a_read_by_id(answer: Answer, gcp: GcpProvider) -> None:
    unread = {"name": "x", "id": "1", "zone": f"zones/{REGION}-a"}
    known = {"name": "y", "id": "2", "zone": f"zones/{REGION}-a", "status": "RUNNING"}
    answer.json({"kind": "compute#instanceList", "items": [unread, known]})
    found = gcp.get(REGION, [f"{REGION}-a:x:1", f"{REGION}-a:y:2"])
    assert {vm_id: vm is not None for vm_id, vm in found.items()} == {f"{REGION}-a:y:2": True}


def test_what_cannot_be_told_of_one_region_stops_a_listing_of_no_other(answer: Answer, gcp: GcpProvider) -> None:
    known = {"name": "y", "id": "2", "zone": "zones/europe-west4-a", "status": "RUNNING"}
    there = {"zones/europe-west4-a": {"instances": [known]}}
    both = frozenset({REGION, "europe-west4"})
    answer.json({"kind": "compute#instanceAggregatedList", "items": there, "unreachables": [f"regions/{REGION}"]})
    (page,) = gcp.list(both, "x")
    assert [vm.region for vm in page.vms] == ["europe-west4"]
    assert [(region, type(error)) for region, error in page.failed.items()] == [(REGION, errors.OutcomeUnknown)]
    with pytest.raises(errors.OutcomeUnknown):
        list(gcp.list(frozenset({REGION}), "x"))
    everywhere = [f"regions/{region}" for region in both]
    answer.json({"kind": "compute#instanceAggregatedList", "items": {}, "unreachables": everywhere})
    with pytest.raises(errors.OutcomeUnknown, match="unreachable"):
        list(gcp.list(both, "x"))


def test_what_throttles_may_say_how_long(answer: Answer, gcp: GcpProvider) -> None:
    answer.error(429, "rateLimitExceeded", Retry_After="17")
    error = launch(gcp)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after == 17


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("authError", "renew the credentials"),
        ("forbidden", "docs/providers/gcp.md"),
        ("accessNotConfigured", "enable the Compute Engine API"),
        ("billingNotEnabled", "enable billing"),
    ],
)
def test_rejected_credentials_come_with_advice(answer: Answer, gcp: GcpProvider, reason: str, advice: str) -> None:
    answer.error(403, reason)
    assert advice in launch(gcp).message


def test_a_long_message_is_cut(answer: Answer, gcp: GcpProvider) -> None:
    answer.error(400, "invalid", "x" * 10_000)
    assert len(launch(gcp).message) < 400


def test_a_refused_connection_is_told_apart_because_nothing_was_sent(answer: Answer, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for url in (closed, answer.url):
        gcp = provider(url, tmp_path)
        gcp._clients._account = gcp._account.model_copy(update={"endpoint_url": closed})
        error = launch(gcp)
        assert type(error) is errors.Unreachable
        assert isinstance(error, errors.Throttled)


def test_a_connection_closed_without_answer_is_an_unknown_outcome(answer: Answer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gcp = provider(answer.url, tmp_path, call_timeout=0.3)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        gcp._clients._account = gcp._account.model_copy(update={"endpoint_url": url})
        assert type(launch(gcp)) is errors.OutcomeUnknown


def test_parameters_that_the_sdk_refuses_are_invalid_and_not_quoted(answer: Answer, gcp: GcpProvider) -> None:
    params = gcp.plan(spec()) | {groups.SEPARATION: []}
    with pytest.raises(errors.InvalidSpec) as caught:
        gcp.launch(REGION, params | {"instance": params["instance"] | {"machineTypo": {"secret-script": "hunter2"}}})
    assert "hunter2" not in str(caught.value)
    rules = gcp.plan(spec(allowed_cidrs=("203.0.113.0/24",))) | {groups.SEPARATION: []}
    with pytest.raises(errors.InvalidSpec):
        gcp.launch(REGION, rules | {"firewalls": [{**rules["firewalls"][0], "typo": 1}]})
    assert not answer.calls
