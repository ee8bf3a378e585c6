"""One security group per attempt that names allowed networks: it limits which networks reach the SSH port of the VM.

The adapter creates the group before the VM, from parameters stored with those of RunInstances. The group's name is
derived from the attempt. A repeat finds the group by name and tags. The group costs nothing. EC2 deletes a group only
after its VM is gone, so gpulease removes the group as a leftover resource.
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
"""Key of the group in the stored parameters. It is not a parameter of RunInstances."""

_MISSING = "InvalidGroup.NotFound"
_KEYS = (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT)


def plan(spec: LaunchSpec, vpc: str | None, group_tags: Mapping[str, str]) -> Params:
    """{"Firewall": …} when the spec names networks, else nothing. `vpc` None means the region's default VPC."""
    if not spec.allowed_cidrs:
        return {}
    owner = spec.owner
    create = {
        "GroupName": f"gpulease/{owner.installation}/{owner.lease_id}/{owner.n}",
        "Description": "SSH to one VM of gpulease",
        "TagSpecifications": [{"ResourceType": "security-group", "Tags": resource_tags.to_list(group_tags)}],
        **({"VpcId": vpc} if vpc is not None else {}),
    }
    return {PART: {"Create": create, "Ingress": [_rule(spec.allowed_cidrs, spec.ssh_port)]}}


def _rule(cidrs: tuple[str, ...], port: int) -> dict[str, Any]:
    networks = list(dict.fromkeys(map(ip_network, cidrs)))
    return {
        "IpProtocol": "tcp",
        "FromPort": port,
        "ToPort": port,
        "IpRanges": [{"CidrIp": str(network)} for network in networks if network.version == 4],
        "Ipv6Ranges": [{"CidrIpv6": str(network)} for network in networks if network.version == 6],
    }


@contextmanager
def ensure_firewall(ec2: "EC2Client", params: Params) -> Iterator[Params]:
    """Creates the attempt's group and yields the parameters of RunInstances with the group attached.

    Parameters without a group are yielded unchanged. If EC2 refuses the block, the group is deleted, so that a refusal
    leaves nothing behind. Raises ProviderError.
    """
    run = dict(params)
    firewall = run.pop(PART, None)
    if firewall is None:
        yield run
        return
    group = _made(ec2, firewall["Create"])
    try:
        _open(ec2, group, firewall["Ingress"])
        yield _attached(run, group)
    except Refused as error:
        if error.code == _MISSING and group in error.message:
            raise OutcomeUnknown(f"EC2 does not show the group that it has just made: {error.message}") from None
        with suppress(ProviderError):
            remove(ec2, group)
        raise


def remove(ec2: "EC2Client", group: str) -> None:
    """Deletes a group; a missing group is success. Raises OutcomeUnknown while a network interface uses the group."""
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
        return _find_group(ec2, create)
    return str(part(answer, "GroupId"))


def _find_group(ec2: "EC2Client", create: Params) -> str:
    """The group that an earlier send created. A group of that name with other tags is not gpulease's and never used."""
    ours = {tag["Key"]: tag["Value"] for tag in create["TagSpecifications"][0]["Tags"]}
    filters: list[Any] = [
        {"Name": "group-name", "Values": [create["GroupName"]]},
        *(resource_tags.tagged(key, ours[key]) for key in _KEYS),
    ]
    with translated():
        answer = ec2.describe_security_groups(Filters=filters)
    groups = part(answer, "SecurityGroups")
    if not groups:
        raise OutcomeUnknown(
            f"group {create['GroupName']} exists and is not shown as ours", code="InvalidGroup.Duplicate"
        )
    return str(groups[0]["GroupId"])


def _open(ec2: "EC2Client", group: str, ingress: list[Any]) -> None:
    """Adds all rules in one call, so that a duplicate means that an earlier send has added all of them."""
    with suppress(TokenConflict), translated():
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=ingress)


def _attached(run: Params, group: str) -> Params:
    """Adds the group to the first interface. The account's own groups stay, and EC2 combines all rules."""
    first: Mapping[str, Any] = run["NetworkInterfaces"][0]
    interface = {**first, "Groups": [*first.get("Groups", ()), group]}
    return {**run, "NetworkInterfaces": [interface, *run["NetworkInterfaces"][1:]]}
