"""Checks of what a launch uses in a region: subnets, security groups, and the quotas of GPU families."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.aws import quotas
from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.aws.rights import GET_QUOTA
from workers.providers.common.checks import check_quota, failed, not_checked, passed, plain, refused
from workers.providers.errors import ProviderError
from workers.providers.types import ProviderOffering, ServiceQuota

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_OPEN = "available"
"""The state of a subnet that takes VMs (EC2 API reference, "Subnet")."""


def check_subnets(ec2: "EC2Client", region: str, listed: Sequence[str]) -> Iterator[AccountCheck]:
    """The account's `subnet_ids` that lie in the region, or the default subnets of the region's zones."""
    name = "subnet-id" if listed else "default-for-az"
    try:
        subnets = read_subnets(ec2, name, list(listed) or ["true"])
    except ProviderError as error:
        yield refused(CheckSubject.SUBNET, "subnets", error, "grant ec2:DescribeSubnets")
        return
    if not subnets:
        yield failed(CheckSubject.SUBNET, *_absence(region, listed))
    for subnet in subnets:
        yield _check_subnet(subnet)


def _absence(region: str, listed: Sequence[str]) -> tuple[str, str, str]:
    if listed:
        return (
            "subnet_ids",
            f"no subnet of `subnet_ids` lies in {region}: nothing is offered there",
            f"add a subnet of {region} to `subnet_ids`, or remove {region} from `regions`",
        )
    return (
        "default subnets",
        f"{region} has no default subnet",
        f"list subnets of {region} in `subnet_ids`, or create the default VPC again (`aws ec2 create-default-vpc`)",
    )


def read_subnets(ec2: "EC2Client", name: str, values: list[str]) -> list[Any]:
    """The region's subnets that a filter selects. Raises ProviderError."""
    with translated():
        answer = ec2.describe_subnets(Filters=[{"Name": name, "Values": values}])
    return sorted(part(answer, "Subnets"), key=lambda subnet: str(subnet["AvailabilityZone"]))


def _check_subnet(subnet: Any) -> AccountCheck:
    name, zone = subnet["SubnetId"], subnet["AvailabilityZone"]
    state, free = subnet.get("State", _OPEN), int(subnet.get("AvailableIpAddressCount", 0))
    if state != _OPEN:
        fix = "wait until EC2 shows the subnet as available, or use another subnet of this zone in `subnet_ids`"
        return failed(CheckSubject.SUBNET, name, f"{zone}: its state is {state}", fix)
    if free == 0:
        fix = "free addresses in the subnet, or list a larger subnet of this zone in `subnet_ids`"
        return failed(CheckSubject.SUBNET, name, f"{zone}: no free address", fix)
    return passed(CheckSubject.SUBNET, name, f"{zone}: {free} free addresses")


def check_security_groups(ec2: "EC2Client", region: str, listed: Sequence[str]) -> Iterator[AccountCheck]:
    """Whether the account's `security_group_ids` exist in the region, and let no VM of the account into another one."""
    if not listed:
        return
    try:
        with translated():
            answer = ec2.describe_security_groups(Filters=[{"Name": "group-id", "Values": list(listed)}])
        existing = {group["GroupId"]: group for group in part(answer, "SecurityGroups")}
    except ProviderError as error:
        yield refused(CheckSubject.FIREWALL, "security groups", error, "grant ec2:DescribeSecurityGroups")
        return
    for group in listed:
        if group not in existing:
            fix = "correct `security_group_ids`; an account with several regions needs one account per region"
            yield failed(CheckSubject.FIREWALL, group, f"{region} has no such security group", fix)
        elif _admitted(existing[group]) & set(listed):
            fix = "remove this rule, or give each tenant an account of its own; groups of VMs need no such rule"
            detail = "one of its rules lets the VMs of all tenants reach each other"
            yield failed(CheckSubject.FIREWALL, group, detail, fix)
        else:
            yield passed(CheckSubject.FIREWALL, group, existing[group].get("VpcId", ""))


def _admitted(group: Any) -> set[str]:
    """The security groups whose VMs a group lets in. Every VM of the account has all of `security_group_ids`."""
    rules = group.get("IpPermissions") or ()
    return {pair["GroupId"] for rule in rules for pair in rule.get("UserIdGroupPairs") or () if "GroupId" in pair}


def check_quotas(
    limits: Sequence[ServiceQuota], offered: Sequence[ProviderOffering], region: str
) -> Iterator[AccountCheck]:
    """Each quota of a family that the region offers. EC2 reports limits and no use of them."""
    known = {limit.code: limit for limit in limits}
    for code, name in quotas.CODES.items():
        sizes = [offer.type.vcpus for offer in offered if quotas.code_of(offer.type.name, offer.market) == code]
        if not sizes:
            continue
        if code not in known:
            yield failed(CheckSubject.QUOTA, code, "the quota could not be read", f"grant {GET_QUOTA}")
            continue
        fix = f"request more of {code} ({name}) in the Service Quotas console: Amazon EC2, {region}"
        yield _check_quota(known[code], min(sizes), fix)
    if any(quotas.code_of(offer.type.name, offer.market) is None for offer in offered):
        fix = f"look for a spot quota of P6 in the Service Quotas console: Amazon EC2, {region}"
        yield not_checked(CheckSubject.QUOTA, "P6 spot", "AWS documents no spot quota for P6", fix)


def _check_quota(quota: ServiceQuota, least: int, fix: str) -> AccountCheck:
    state = f"{quota.name}: {plain(quota.limit)} {quota.unit}"
    return check_quota(quota.code, amount=quota.limit, least=least, state=state, fix=fix)
