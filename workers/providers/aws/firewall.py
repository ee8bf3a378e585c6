"""One security group per attempt that asks for it: which networks may reach port 22 of its VM.

The group is made before the VM, under a name that is derived from the attempt, from parameters stored beside those of
RunInstances. A repeat finds the group by name and tags. It costs nothing and cannot go before its VM has gone: it is
removed as a leftover.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from app.domain import tags
from workers.providers.aws import resource_tags
from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.errors import InvalidSpec, OutcomeUnknown, ProviderError, Refused, TokenConflict
from workers.providers.types import LaunchSpec, Params

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

PART = "Firewall"
"""Its place in the stored parameters; not a parameter of RunInstances."""

_SSH = 22
_MISSING = "InvalidGroup.NotFound"
_KEYS = (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT)


def plan(spec: LaunchSpec, vpc: str | None) -> Params:
    """{"Firewall": …} when the spec names networks, else nothing. `vpc` None: the region's default VPC."""
    if not spec.allowed_cidrs:
        return {}
    owner = spec.owner
    create = {
        "GroupName": f"gpulease/{owner.installation}/{owner.lease_id}/{owner.n}",
        "Description": "SSH to one VM of gpulease",
        "TagSpecifications": [
            {"ResourceType": "security-group", "Tags": resource_tags.to_list(resource_tags.of(spec))}
        ],
        **({"VpcId": vpc} if vpc is not None else {}),
    }
    return {PART: {"Create": create, "Ingress": [_rule(spec.allowed_cidrs)]}}


def _rule(cidrs: tuple[str, ...]) -> dict[str, Any]:
    networks = list(dict.fromkeys(map(ip_network, cidrs)))
    return {
        "IpProtocol": "tcp",
        "FromPort": _SSH,
        "ToPort": _SSH,
        "IpRanges": [{"CidrIp": str(one)} for one in networks if one.version == 4],
        "Ipv6Ranges": [{"CidrIpv6": str(one)} for one in networks if one.version == 6],
    }


@contextmanager
def ensure_firewall(ec2: "EC2Client", params: Params) -> Iterator[Params]:
    """The parameters of RunInstances, with the attempt's group made and attached; without one, as they are.

    When the block is refused the group is withdrawn: a refusal leaves nothing behind. Raises ProviderError.
    """
    run = dict(params)
    wanted = run.pop(PART, None)
    if wanted is None:
        yield run
        return
    group = _made(ec2, wanted["Create"])
    try:
        _open(ec2, group, wanted["Ingress"])
        yield _attached(run, group)
    except Refused as error:
        if error.code == _MISSING and group in error.message:
            raise OutcomeUnknown(f"EC2 does not show the group that it has just made: {error.message}") from None
        with suppress(ProviderError):
            remove(ec2, group)
        raise


def remove(ec2: "EC2Client", group: str) -> None:
    """Removes a group; one that is gone is success. OutcomeUnknown while an interface has it."""
    try:
        with translated():
            ec2.delete_security_group(GroupId=group)
    except InvalidSpec as error:
        if error.code != _MISSING:
            raise


def _made(ec2: "EC2Client", create: Params) -> str:
    try:
        with translated():
            answer = ec2.create_security_group(**create)
    except TokenConflict:
        return _found(ec2, create)
    return str(part(answer, "GroupId"))


def _found(ec2: "EC2Client", create: Params) -> str:
    """The group that an earlier send made. One of that name with other tags is not ours and never used."""
    ours = {tag["Key"]: tag["Value"] for tag in create["TagSpecifications"][0]["Tags"]}
    wanted: list[Any] = [
        {"Name": "group-name", "Values": [create["GroupName"]]},
        *(resource_tags.tagged(key, ours[key]) for key in _KEYS),
    ]
    with translated():
        answer = ec2.describe_security_groups(Filters=wanted)
    groups = part(answer, "SecurityGroups")
    if not groups:
        raise OutcomeUnknown(
            f"group {create['GroupName']} exists and is not shown as ours", code="InvalidGroup.Duplicate"
        )
    return str(groups[0]["GroupId"])


def _open(ec2: "EC2Client", group: str, ingress: list[Any]) -> None:
    """All rules in one call, so that a duplicate means that an earlier send has written them all."""
    with suppress(TokenConflict), translated():
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=ingress)


def _attached(run: Params, group: str) -> Params:
    """The account's own groups stay; their rules add up with ours."""
    first: Mapping[str, Any] = run["NetworkInterfaces"][0]
    interface = {**first, "Groups": [*first.get("Groups", ()), group]}
    return {**run, "NetworkInterfaces": [interface, *run["NetworkInterfaces"][1:]]}
