"""Rights of EC2 by `DryRun`: EC2 checks the identity's rights to a call and does nothing.

EC2 answers `DryRunOperation` for a permitted call and `UnauthorizedOperation` for a missing right (EC2 API reference,
"Common query parameters").
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore import xform_name

from app.domain.account_checks import AccountCheck, CheckSubject
from app.domain.ids import LeaseId, TenantId
from app.domain.offerings import LISTED_MARKETS
from app.domain.tags import INSTALLATION, OwnerTags
from workers.providers.aws import firewall, launch, resource_tags
from workers.providers.aws.error_codes import NOT_ALLOWED
from workers.providers.aws.errors import translated
from workers.providers.aws.rights import (
    CREATE_PLACEMENT_GROUP,
    CREATE_SECURITY_GROUP,
    CREATE_VOLUME,
    LAUNCH,
    READS_OF_EC2,
    READS_OF_RESERVATIONS,
    RUN_INSTANCES,
)
from workers.providers.common.checks import failed, not_checked, passed, refused
from workers.providers.errors import (
    InsufficientCapacity,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
)
from workers.providers.types import Image, LaunchSpec, Params, ProviderOffering

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

ALLOWED = "DryRunOperation"
IGNORED = "DryRunIgnored"
_PERMITTED = (InsufficientCapacity, ProviderQuotaExceeded)
"""Refusals of a permitted call. The checks of subnets and quotas report the cause."""


def grant(right: str) -> str:
    """The fix for a missing right."""
    return f"grant {right} to the identity of this account, as in the policy of docs/providers/aws.md"


def ask(call: Callable[..., object], **arguments: Any) -> ProviderError:
    """The answer to a call with `DryRun`. EC2 always answers with an error."""
    try:
        with translated():
            call(**arguments, DryRun=True)
    except ProviderError as error:
        return error
    return ProviderError("the server ignores DryRun: it is not AWS", code=IGNORED)


def check_reads(ec2: "EC2Client", *, reserved: bool = False) -> list[AccountCheck]:
    """The rights to read at EC2. `reserved`: the account has reservations in the region."""
    rights = (*READS_OF_EC2, *(READS_OF_RESERVATIONS if reserved else ()))
    return [_read(right, ask(getattr(ec2, xform_name(right.removeprefix("ec2:"))))) for right in rights]


def _read(right: str, answer: ProviderError) -> AccountCheck:
    if answer.code == ALLOWED:
        return passed(CheckSubject.RIGHT, right)
    return refused(CheckSubject.RIGHT, right, answer, grant(right))


def check_launch(
    ec2: "EC2Client",
    plan: Callable[[LaunchSpec], Params],
    image: Image | None,
    offered: list[ProviderOffering],
    installation: str,
) -> list[AccountCheck]:
    """The rights to launch, by the parameters of a real launch of the smallest type in each market.

    Sends no launch to a server that ignores `DryRun`.
    """
    if image is None or not offered:
        missing = "an image" if image is None else "an offering"
        return [not_checked(CheckSubject.RIGHT, right, f"a launch needs {missing} here") for right in LAUNCH]
    if ask(ec2.describe_regions).code == IGNORED:
        return [not_checked(CheckSubject.RIGHT, right, "the server ignores DryRun: it is not AWS") for right in LAUNCH]
    checks = []
    for market in LISTED_MARKETS:
        smallest = min((offer for offer in offered if offer.market is market), key=_size, default=None)
        if smallest is not None:
            name = f"{RUN_INSTANCES}, {market.replace('_', ' ')}"
            checks.append(_launch(ec2, plan, _spec(smallest, image, installation), name))
    checks.append(_security_group(ec2, plan, _spec(min(offered, key=_size), image, installation)))
    checks.append(_placement_group(ec2, installation))
    checks.append(_volume(ec2, offered[0].zone, installation))
    return checks


def _size(offering: ProviderOffering) -> tuple[int, str, str]:
    return offering.type.vcpus, offering.type.name, offering.zone


def _spec(offering: ProviderOffering, image: Image, installation: str) -> LaunchSpec:
    owner = OwnerTags(
        installation=installation,
        lease_id=LeaseId("check"),
        n=1,
        tenant_id=TenantId("check"),
        params_hash="check",
        deadline_at=datetime.fromtimestamp(0, tz=UTC),
    )
    return LaunchSpec(
        token="gpulease-check",  # noqa: S106  no password: a client token of EC2, which DryRun does not use up
        owner=owner,
        name="gpulease-check",
        region=offering.region,
        zone=offering.zone,
        instance_type=offering.type.name,
        market=offering.market,
        image=image,
        disk_gib=image.disk_gib,
        public_ip=True,
        ssh_public_keys=(),
        startup_script=None,
        labels={},
    )


def _launch(ec2: "EC2Client", plan: Callable[[LaunchSpec], Params], spec: LaunchSpec, name: str) -> AccountCheck:
    what = f"{spec.instance_type} in {spec.zone}"
    try:
        params = plan(spec)
    except ProviderError as error:
        return not_checked(CheckSubject.RIGHT, name, error.message)
    answer = ask(ec2.run_instances, **launch.arguments(params))
    if answer.code == ALLOWED:
        return passed(CheckSubject.RIGHT, name, what)
    if isinstance(answer, _PERMITTED):
        return passed(CheckSubject.RIGHT, name, f"{what}: permitted, now refused with {answer.code}")
    if answer.code == NOT_ALLOWED or not isinstance(answer, Refused):
        return refused(CheckSubject.RIGHT, name, answer, grant(RUN_INSTANCES))
    return failed(CheckSubject.RIGHT, name, f"{what}: {answer.message}", "correct the settings of this account")


def _security_group(ec2: "EC2Client", plan: Callable[[LaunchSpec], Params], spec: LaunchSpec) -> AccountCheck:
    """A documentation network (RFC 5737) stands for the networks of a lease."""
    try:
        params = plan(replace(spec, allowed_cidrs=("192.0.2.0/24",)))
    except ProviderError as error:
        return not_checked(CheckSubject.RIGHT, CREATE_SECURITY_GROUP, error.message)
    answer = ask(ec2.create_security_group, **params[firewall.PART]["Create"])
    if answer.code == ALLOWED or isinstance(answer, _PERMITTED):
        return passed(CheckSubject.RIGHT, CREATE_SECURITY_GROUP)
    return refused(CheckSubject.RIGHT, CREATE_SECURITY_GROUP, answer, grant(CREATE_SECURITY_GROUP))


def _placement_group(ec2: "EC2Client", installation: str) -> AccountCheck:
    tagged: Any = {"ResourceType": "placement-group", "Tags": resource_tags.to_list({INSTALLATION: installation})}
    parameters = {"GroupName": "gpulease-check", "Strategy": "cluster", "TagSpecifications": [tagged]}
    answer = ask(ec2.create_placement_group, **parameters)
    if answer.code == ALLOWED or isinstance(answer, _PERMITTED):
        return passed(CheckSubject.RIGHT, CREATE_PLACEMENT_GROUP)
    return refused(CheckSubject.RIGHT, CREATE_PLACEMENT_GROUP, answer, grant(CREATE_PLACEMENT_GROUP))


def _volume(ec2: "EC2Client", zone: str, installation: str) -> AccountCheck:
    tagged: Any = {"ResourceType": "volume", "Tags": resource_tags.to_list({INSTALLATION: installation})}
    answer = ask(ec2.create_volume, AvailabilityZone=zone, Size=1, VolumeType="gp3", TagSpecifications=[tagged])
    if answer.code == ALLOWED or isinstance(answer, _PERMITTED):
        return passed(CheckSubject.RIGHT, CREATE_VOLUME)
    return refused(CheckSubject.RIGHT, CREATE_VOLUME, answer, grant(CREATE_VOLUME))
