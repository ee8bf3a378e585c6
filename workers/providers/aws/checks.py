"""The checks of one AWS account before its first lease: what they ask, and in which order."""

from collections.abc import Callable, Iterator, Sequence

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.aws import dry_runs, place_checks, policy_simulation
from workers.providers.aws.calls import part
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.dry_runs import ALLOWED, IGNORED, grant
from workers.providers.aws.error_codes import NOT_ALLOWED
from workers.providers.aws.errors import translated
from workers.providers.aws.images import PARAMETER
from workers.providers.aws.quotas import CODES
from workers.providers.aws.rights import (
    GET_DEFAULT_QUOTA,
    GET_IDENTITY,
    GET_PARAMETER,
    GET_PRODUCTS,
    GET_QUOTA,
)
from workers.providers.aws.settings import AwsAccount
from workers.providers.common.checks import attempt, check_images, failed, passed, refused
from workers.providers.errors import NotFound, ProviderError
from workers.providers.ports import Provider
from workers.providers.types import Image, ProviderOffering

_CREDENTIALS = "correct `profile` or `role_arn` of this account, or the credentials that boto3 finds on this host"
_ENABLE = "enable the region in the AWS console (Account, AWS Regions), or remove it from `regions`"
_NO_AWS = "remove `endpoint_url` of this account: the checks need EC2 itself, or cloudsim"
_IMAGE = "correct {setting} of this account, or share the image with it"


def of_account(
    provider: Provider, clients: AwsClients, account: AwsAccount, installation: str
) -> Iterator[AccountCheck]:
    """What concerns the whole account."""
    try:
        identity = provider.identity()
    except ProviderError as error:
        yield refused(CheckSubject.CREDENTIALS, GET_IDENTITY, error, _CREDENTIALS)
        return
    yield passed(CheckSubject.CREDENTIALS, GET_IDENTITY, f"account {identity}")
    yield attempt(CheckSubject.RIGHT, GET_PRODUCTS, lambda: _read_price_list(clients), grant(GET_PRODUCTS))
    yield from _check_own_resources(clients, account, installation)
    yield from _check_listed_subnets(clients, account)


def _read_price_list(clients: AwsClients) -> str:
    with translated():
        part(clients.pricing().get_products(ServiceCode="AmazonEC2", MaxResults=1), "PriceList")
    return ""


def _check_own_resources(clients: AwsClients, account: AwsAccount, installation: str) -> list[AccountCheck]:
    try:
        with translated():
            caller = str(part(clients.sts().get_caller_identity(), "Arn"))
    except ProviderError as error:
        return [refused(CheckSubject.RIGHT, GET_IDENTITY, error, _CREDENTIALS)]
    return policy_simulation.check(clients.iam(), caller, account.role_arn, installation)


def _check_listed_subnets(clients: AwsClients, account: AwsAccount) -> Iterator[AccountCheck]:
    """Subnets of `subnet_ids` that no region of the account has. A region that cannot be read has its own check."""
    missing = set(account.subnet_ids)
    for region in account.regions if missing else ():
        try:
            subnets = place_checks.read_subnets(clients.ec2(region), "subnet-id", list(account.subnet_ids))
        except ProviderError:
            return
        missing -= {str(subnet["SubnetId"]) for subnet in subnets}
    for subnet in sorted(missing):
        detail = f"no region of this account has it ({', '.join(account.regions)})"
        yield failed(
            CheckSubject.SUBNET, subnet, detail, "correct `subnet_ids`, or add the subnet's region to `regions`"
        )


def of_region(
    provider: Provider, clients: AwsClients, account: AwsAccount, region: str, installation: str
) -> Iterator[AccountCheck]:
    """What concerns one region."""
    ec2 = clients.ec2(region)
    answer = dry_runs.ask(ec2.describe_regions)
    if answer.code not in {ALLOWED, NOT_ALLOWED}:
        yield refused(CheckSubject.REGION, region, answer, _NO_AWS if answer.code == IGNORED else _ENABLE)
        return
    offered, check = _check_offerings(provider, region)
    yield check
    yield from dry_runs.check_reads(ec2, reserved=bool(account.reservations_in(region)))
    yield from _check_other_reads(clients, region)
    image, checks = _check_images(provider, account, region)
    yield from dry_runs.check_launch(ec2, provider.plan, image, offered, installation)
    yield from checks
    yield from place_checks.check_subnets(ec2, region, account.subnet_ids)
    yield from place_checks.check_security_groups(ec2, region, account.security_group_ids)
    yield from _check_quotas(provider, offered, region)


def _check_offerings(provider: Provider, region: str) -> tuple[list[ProviderOffering], AccountCheck]:
    try:
        offered = list(provider.offered(region))
    except ProviderError as error:
        return [], refused(CheckSubject.REGION, region, error, grant("ec2:DescribeInstanceTypeOfferings"))
    if not offered:
        fix = "choose another region, or list subnets in zones that offer GPU types"
        return [], failed(CheckSubject.REGION, region, "no GPU type of the catalogue is offered to this account", fix)
    types, zones = {offer.type.name for offer in offered}, {offer.zone for offer in offered}
    return offered, passed(CheckSubject.REGION, region, f"{len(types)} GPU types in {len(zones)} zones")


def _check_other_reads(clients: AwsClients, region: str) -> Iterator[AccountCheck]:
    """An unknown parameter or quota still shows the right to read it."""

    def read_parameter() -> str:
        return _known(lambda: clients.ssm(region).get_parameter(Name=PARAMETER))

    def read_quota(operation: str) -> str:
        call = getattr(clients.quotas(region), operation)
        return _known(lambda: call(ServiceCode="ec2", QuotaCode=next(iter(CODES))))

    yield attempt(CheckSubject.RIGHT, GET_PARAMETER, read_parameter, grant(GET_PARAMETER))
    for right, operation in ((GET_QUOTA, "get_service_quota"), (GET_DEFAULT_QUOTA, "get_aws_default_service_quota")):
        yield attempt(
            CheckSubject.RIGHT,
            right,
            lambda operation=operation: read_quota(operation),
            grant(right),
        )


def _known(call: Callable[[], object]) -> str:
    try:
        with translated():
            call()
    except NotFound:
        pass
    return ""


def _check_images(provider: Provider, account: AwsAccount, region: str) -> tuple[Image | None, list[AccountCheck]]:
    """The image of a launch, and the checks of all images."""
    images: list[Image] = []

    def resolve(name: str | None) -> str:
        image = provider.image(region, name)
        images.append(image)
        return f"{image.id}, {image.name}"

    checks = check_images(resolve, account.images, _IMAGE)
    return next(iter(images), None), checks


def _check_quotas(provider: Provider, offered: Sequence[ProviderOffering], region: str) -> Iterator[AccountCheck]:
    try:
        limits = provider.service_quotas(region)
    except ProviderError as error:
        yield refused(CheckSubject.QUOTA, "quotas", error, grant(GET_QUOTA))
        return
    yield from place_checks.check_quotas(limits, offered, region)
