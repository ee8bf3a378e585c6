"""A code of each class of error, through real boto3 and a real socket. `test_error_codes.py` has every code."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.harness.cached_settings import read_settings
from tests.workers.providers.aws.answering import Answer, answering
from tests.workers.providers.samples import owner, spec
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.errors import refusal_of
from workers.providers.aws.settings import AwsAccount

REGION = "us-east-1"

ROWS = [
    (errors.InsufficientCapacity, "InsufficientInstanceCapacity"),
    (errors.NotOffered, "Unsupported"),
    (errors.ProviderQuotaExceeded, "VcpuLimitExceeded"),
    (errors.Throttled, "RequestLimitExceeded"),
    (errors.NotReady, "ConcurrentTagAccess"),
    (errors.OutcomeUnknown, "InternalError"),
    (errors.CredentialsRejected, "UnauthorizedOperation"),
    (errors.InvalidSpec, "InvalidParameterCombination"),
    (errors.InvalidSpec, "InvalidInstanceID.NotFound"),
    (errors.PriceTooLow, "SpotMaxPriceTooLow"),
    (errors.TokenConflict, "IdempotentParameterMismatch"),
]


def provider(url: str, call_timeout: float = 60.0) -> AwsProvider:
    named = ("sg-of-the-account",)  # so that a launch is one call
    account = AwsAccount(provider="aws", name="stub", regions=(REGION,), endpoint_url=url, security_group_ids=named)
    return AwsProvider(account, read_settings(call_timeout=call_timeout))


@pytest.fixture(scope="module")
def stub() -> Iterator[tuple[Answer, AwsProvider]]:
    with answering() as answer:
        yield answer, provider(answer.url)


@pytest.fixture
def answer(stub: tuple[Answer, AwsProvider]) -> Answer:
    stub[0].bodies.clear()
    return stub[0]


@pytest.fixture
def aws(stub: tuple[Answer, AwsProvider]) -> AwsProvider:
    return stub[1]


def launch(aws: AwsProvider) -> errors.ProviderError:
    with pytest.raises(errors.ProviderError) as caught:
        aws.launch(REGION, aws.plan(spec()))
    return caught.value


@pytest.mark.parametrize(("kind", "code"), ROWS)
@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_refused_launch_says_what_to_do(
    answer: Answer, aws: AwsProvider, kind: type[errors.ProviderError], code: str, status: int
) -> None:
    answer.ec2(code, status)
    error = launch(aws)
    assert type(error) is kind
    assert error.code == code
    assert len(answer.bodies) == 1, "nothing is repeated inside the SDK"


UNLISTED = [
    (400, errors.InvalidSpec),
    (403, errors.NotPermitted),
    (404, errors.InvalidSpec),
    (408, errors.OutcomeUnknown),
    (409, errors.OutcomeUnknown),
    (500, errors.OutcomeUnknown),
    (503, errors.OutcomeUnknown),
]
"""A provider that rejects a create call with a code that is not in the table has created nothing."""


@pytest.mark.parametrize("code", ["SomethingNew", "DryRunOperation"])
@pytest.mark.parametrize(("status", "kind"), UNLISTED)
def test_the_status_decides_about_an_unlisted_code_of_a_create_call(
    answer: Answer, aws: AwsProvider, code: str, status: int, kind: type[errors.ProviderError]
) -> None:
    answer.ec2(code, status)
    assert type(launch(aws)) is kind


@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
def test_an_unlisted_code_of_another_call_is_an_unknown_outcome(answer: Answer, aws: AwsProvider, status: int) -> None:
    answer.ec2("SomethingNew", status)
    with pytest.raises(errors.OutcomeUnknown):
        aws.get(REGION, ["i-0123456789abcdef0"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("Client.VolumeLimitExceeded", errors.ProviderQuotaExceeded),
        ("Client.InternalError", errors.InvalidSpec),
        ("Client.InvalidSnapshot.NotFound", errors.InvalidSpec),
        ("Server.InsufficientInstanceCapacity", errors.InsufficientCapacity),
        ("Client.InvalidKMSKey", errors.InvalidSpec),
        ("Client.InvalidParameterCombination", errors.InvalidSpec),
        ("Server.InternalError", errors.Refused),
        ("Client.UserInitiatedShutdown", None),
        (None, None),
    ],
)
def test_a_state_reason_is_a_refusal_with_or_without_its_prefix(
    code: str | None, kind: type[errors.Refused] | None
) -> None:
    assert refusal_of(code) is kind
    assert refusal_of(code, f"{code}: No.") is kind
    assert refusal_of(code, "No.") is kind


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("Server.InternalError", "Client.InternalError: Client error on launch", errors.InvalidSpec),
        ("Server.InternalError", "Client.InvalidKMSKey.InvalidState: The key is disabled", errors.InvalidSpec),
        ("Client.InternalError", "Client.VolumeLimitExceeded: Too many", errors.ProviderQuotaExceeded),
        ("Client.VolumeLimitExceeded", "Server.InternalError: Internal error on launch", errors.ProviderQuotaExceeded),
        ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown", None),
    ],
)
def test_the_code_at_the_beginning_of_the_message_may_say_more(
    code: str, message: str, kind: type[errors.Refused] | None
) -> None:
    assert refusal_of(code, message) is kind


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidParameterValue", "Invalid availability zone: [us-east-1z]"),
        ("UnsupportedOperation", "The instance type is not supported in the availability zone us-east-1e."),
    ],
)
def test_what_a_zone_lacks_is_not_offered(answer: Answer, aws: AwsProvider, code: str, message: str) -> None:
    answer.ec2(code, 400, message)
    assert type(launch(aws)) is errors.NotOffered


# --- records that are not as EC2's model describes them ----------------------------------------------------------


def instance(number: int, state: str = "<instanceState><name>running</name></instanceState>", zone: str = "") -> str:
    placement = f"<placement><availabilityZone>{zone}</availabilityZone></placement>" if zone else "<placement/>"
    return f"<item><instanceId>i-{number:017x}</instanceId>{state}{placement}</item>"


def described(*instances: str, action: str = "DescribeInstances") -> str:
    inside = f"<instancesSet>{''.join(instances)}</instancesSet>"
    if action == "RunInstances":
        return f"<{action}Response>{inside}</{action}Response>"
    return f"<{action}Response><reservationSet><item>{inside}</item></reservationSet></{action}Response>"


def test_a_record_that_cannot_be_read_hides_its_zone_and_no_other_vm(answer: Answer, aws: AwsProvider) -> None:
    odd = instance(1, state="", zone="us-east-1a")
    answer.say(200, described(odd, instance(2, zone="us-east-1b"), instance(3)))
    (page,) = aws.list(frozenset({REGION}), "x")
    assert [(vm.id, vm.zone) for vm in page.vms] == [(f"i-{2:017x}", "us-east-1b"), (f"i-{3:017x}", "")]
    assert (page.unreachable, page.failed) == ({"us-east-1a"}, {})


def test_a_record_without_state_and_zone_fails_its_region_after_the_other_vms(answer: Answer, aws: AwsProvider) -> None:
    answer.say(200, described(instance(1, state=""), instance(2, zone="us-east-1b")))
    (page,) = aws.list(frozenset({REGION}), "x")
    assert [vm.id for vm in page.vms] == [f"i-{2:017x}"]
    assert [(region, type(error)) for region, error in page.failed.items()] == [(REGION, errors.OutcomeUnknown)]


def test_a_record_that_cannot_be_read_is_left_out_of_a_read_by_id(answer: Answer, aws: AwsProvider) -> None:
    answer.say(200, described(instance(1, state=""), instance(2), "<item/>"))
    known = aws.get(REGION, [f"i-{number:017x}" for number in (1, 2, 3)])
    assert {vm_id: vm is not None for vm_id, vm in known.items()} == {f"i-{2:017x}": True, f"i-{3:017x}": False}


@pytest.mark.parametrize("body", [described(action="RunInstances"), described("<item/>", action="RunInstances")])
def test_an_answer_to_a_launch_without_a_vm_is_an_unknown_outcome(answer: Answer, aws: AwsProvider, body: str) -> None:
    answer.say(200, body)
    assert type(launch(aws)) is errors.OutcomeUnknown


def test_a_notice_without_a_time_is_a_notice_of_now_without_a_deadline(answer: Answer) -> None:
    status = "<status><code>marked-for-termination</code></status>"
    request = f"<item><instanceId>i-{1:017x}</instanceId>{status}</item>"
    items = f"<spotInstanceRequestSet>{request}<item/></spotInstanceRequestSet>"
    answer.say(200, f"<DescribeSpotInstanceRequestsResponse>{items}</DescribeSpotInstanceRequestsResponse>")
    account = AwsAccount(provider="aws", name="stub", regions=(REGION,), endpoint_url=answer.url)
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    aws = AwsProvider(account, read_settings(call_timeout=60.0), clock=now.timestamp)
    (notice,) = aws.interruptions(frozenset({REGION}), "x")
    assert (notice.vm_id, notice.action) == (f"i-{1:017x}", "terminate")
    assert (notice.notice_at, notice.deadline_at) == (now, None)


def test_a_status_without_its_parts_is_not_ready(answer: Answer, aws: AwsProvider) -> None:
    items = f"<instanceStatusSet><item/><item><instanceId>i-{1:017x}</instanceId></item></instanceStatusSet>"
    answer.say(200, f"<DescribeInstanceStatusResponse>{items}</DescribeInstanceStatusResponse>")
    assert aws.ready(REGION, [f"i-{1:017x}"]) == frozenset()


@pytest.mark.parametrize("body", ["", "<html>Bad Gateway</html>", "<Response>", "\0"])
@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_that_cannot_be_read_is_an_unknown_outcome(
    answer: Answer, aws: AwsProvider, body: str, status: int
) -> None:
    answer.say(status, body)
    assert type(launch(aws)) is errors.OutcomeUnknown


def test_an_answer_of_something_else_is_never_an_empty_listing(answer: Answer, aws: AwsProvider) -> None:
    answer.say(200, "<html><body>Please log in to the network</body></html>")
    questions: dict[str, Callable[[], object]] = {
        "identity": aws.identity,
        "list": lambda: list(aws.list(frozenset({REGION}), "x")),
        "get": lambda: aws.get(REGION, ["i-0123456789abcdef0"]),
        "find": lambda: aws.find(REGION, "f" * 64, owner()),
        "ready": lambda: aws.ready(REGION, ["i-0123456789abcdef0"]),
        "interruptions": lambda: aws.interruptions(frozenset({REGION}), "x"),
        "leftovers": lambda: aws.leftovers(REGION, "x", None),
        "offered": lambda: aws.offered(REGION),
        "service_quotas": lambda: aws.service_quotas(REGION),
        "image": lambda: aws.image(REGION),
    }
    for ask in questions.values():
        with pytest.raises(errors.OutcomeUnknown):
            ask()


def test_throttling_tells_how_long_to_wait_when_aws_does(answer: Answer, aws: AwsProvider) -> None:
    answer.ec2("RequestLimitExceeded", 503, Retry_After="7")
    error = launch(aws)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after == 7.0
    answer.ec2("RequestLimitExceeded", 503)
    error = launch(aws)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after is None


def test_an_unknown_vm_is_not_found_when_it_is_looked_at(answer: Answer, aws: AwsProvider) -> None:
    answer.ec2("InvalidInstanceID.NotFound")
    with pytest.raises(errors.NotFound):
        aws.get(REGION, ["i-0123456789abcdef0"])


def test_missing_rights_name_the_action_and_what_to_grant(answer: Answer, aws: AwsProvider) -> None:
    answer.ec2(
        "UnauthorizedOperation", 403, "You are not authorized. Encoded authorization failure message: " + "x" * 5000
    )
    error = launch(aws)
    assert "RunInstances" in error.message
    assert "grant" in error.message
    assert len(error.message) < 600


@pytest.mark.parametrize("code", ["InvalidClientTokenId", "ExpiredToken", "SignatureDoesNotMatch", "AccessDenied"])
def test_identity_names_what_to_do_about_credentials(answer: Answer, aws: AwsProvider, code: str) -> None:
    answer.sts(code)
    with pytest.raises(errors.CredentialsRejected, match=r"renew the credentials|grant the actions"):
        aws.identity()


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "AccessDeniedException", "ExpiredTokenException"])
def test_json_services_say_the_same(answer: Answer, aws: AwsProvider, code: str) -> None:
    answer.json(code)
    with pytest.raises(errors.CredentialsRejected):
        aws.service_quotas(REGION)
    with pytest.raises(errors.CredentialsRejected):
        aws.image(REGION)


def test_quotas_that_aws_does_not_tell_are_left_out(answer: Answer, aws: AwsProvider) -> None:
    answer.json("NoSuchResourceException")
    assert aws.service_quotas(REGION) == []


def test_a_refused_connection_is_told_apart_because_nothing_was_sent() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = listener.getsockname()[1]
    error = launch(provider(f"http://127.0.0.1:{closed}"))
    assert type(error) is errors.Unreachable
    assert isinstance(error, errors.Throttled)


def test_a_connection_closed_without_answer_is_an_unknown_outcome() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        aws = provider(f"http://127.0.0.1:{listener.getsockname()[1]}", call_timeout=0.5)
        assert type(launch(aws)) is errors.OutcomeUnknown


def test_parameters_that_boto3_refuses_are_invalid_and_not_quoted(answer: Answer, aws: AwsProvider) -> None:
    params = aws.plan(spec()) | {"KeyName": {"secret-script": "hunter2"}}
    with pytest.raises(errors.InvalidSpec) as caught:
        aws.launch(REGION, params)
    assert "hunter2" not in str(caught.value)
    assert not answer.bodies


def test_a_token_used_with_other_parameters_is_a_conflict(answer: Answer, aws: AwsProvider) -> None:
    answer.ec2("IdempotentParameterMismatch")
    assert type(launch(aws)) is errors.TokenConflict


def test_errors_inside_a_listing_are_translated_too(answer: Answer, aws: AwsProvider) -> None:
    answer.ec2("RequestLimitExceeded", 503)
    with pytest.raises(errors.Throttled):
        next(iter(aws.list(frozenset({REGION}), owner().installation)))


@pytest.mark.parametrize(
    ("body", "question"),
    [
        ("<R><volumeSet><item/></volumeSet></R>", lambda aws: aws.leftovers(REGION, "x", None)),
        ('{"Parameter": {}}', lambda aws: aws.image(REGION)),
        ('{"Quota": {}}', lambda aws: aws.service_quotas(REGION)),
        ("<R><regionInfo><item/></regionInfo></R>", lambda aws: aws._regions()[1]),
    ],
)
def test_a_record_without_its_members_is_an_unknown_outcome(
    answer: Answer, aws: AwsProvider, body: str, question: Callable[[AwsProvider], object]
) -> None:
    answer.say(200, body)
    try:
        found = question(aws)
    except errors.OutcomeUnknown as error:
        found = error
    assert type(found) is errors.OutcomeUnknown


FREE_PLAN = "The specified instance type is not eligible for Free Tier. For a list, run 'describe-instance-types'."


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("Blocked", "This account is currently blocked and not recognized as a valid account.", errors.AccountBlocked),
        ("PendingVerification", "Your request for accessing resources in this region is", errors.RegionBlocked),
        ("InvalidParameterCombination", FREE_PLAN, errors.AccountBlocked),
        ("InvalidParameterCombination", f"the value '{FREE_PLAN}' is not valid", errors.InvalidSpec),
        ("InvalidParameterValue", FREE_PLAN, errors.InvalidSpec),
    ],
)
def test_an_account_that_may_launch_nothing_is_known_by_code_and_not_by_words_that_a_tenant_may_choose(
    answer: Answer, aws: AwsProvider, code: str, message: str, kind: type[errors.ProviderError]
) -> None:
    answer.ec2(code, 400, message)
    error = launch(aws)
    assert type(error) is kind
    assert error.code == code


@pytest.mark.parametrize(
    ("code", "message", "may"),
    [
        ("InvalidAMIID.NotFound", "The image does not exist", True),
        ("OptInRequired", "accept the terms of this product", True),
        ("InvalidSubnetID.NotFound", "The subnet does not exist", False),
        ("UnauthorizedOperation", "not authorized on resource: arn:aws:ec2:us-east-1::image/ami-1 with", True),
        ("UnauthorizedOperation", "not authorized on resource: arn:aws:ec2:us-east-1:1:instance/* with", False),
        ("PendingVerification", "wait", False),
        ("VcpuLimitExceeded", "limit", False),
    ],
)
def test_a_refusal_says_whether_the_image_may_be_the_cause(
    answer: Answer, aws: AwsProvider, code: str, message: str, *, may: bool
) -> None:
    answer.ec2(code, 400, message)
    error = launch(aws)
    assert isinstance(error, errors.Refused)
    assert error.may_concern_image is may
