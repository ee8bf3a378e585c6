"""What the members of a group share at EC2: a security group that opens them to each other, and a cluster placement group.

Every launch creates both, from parameters stored with those of RunInstances, under names derived from the group's id. A
repeat and the other members find them. Both cost nothing. EC2 deletes them only when no VM uses them, so gpulease removes
them as leftover resources. A refused launch leaves them: other members may be about to use them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.domain import tags
from app.domain.offerings import Market
from workers.providers.aws import firewall, resource_tags
from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.aws.settings import AwsAccount
from workers.providers.common.recent import Recent
from workers.providers.errors import InvalidSpec, NotReady, Refused, TokenConflict
from workers.providers.types import LaunchSpec, Params

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

PART = "Group"
"""Key in the stored parameters. It is not a parameter of RunInstances."""

_CLUSTER = "cluster"
_UNKNOWN = "InvalidPlacementGroup.Unknown"
_MISSING = frozenset({_UNKNOWN, "InvalidGroup.NotFound"})
_NOT_READY_SECONDS = 1.0


def placement_group(spec: LaunchSpec, account: AwsAccount) -> str | None:
    """The placement group of the VM. A reservation places its VMs itself, and the account's own setting comes before the group's."""
    if spec.market is Market.RESERVED:
        return None
    return account.placement_group or _own_placement_group(spec, account)


def _own_placement_group(spec: LaunchSpec, account: AwsAccount) -> str | None:
    """The placement group that the launch creates."""
    group = spec.group
    if group is None or group.placement != _CLUSTER or account.placement_group or spec.market is Market.RESERVED:
        return None
    return f"gpulease-{group.group_id}"


def plan(spec: LaunchSpec, account: AwsAccount, vpc: str | None, *, efa: bool) -> Params:
    """{"Group": …} for the member of a group, else nothing. `vpc` None means the region's default VPC."""
    if spec.group is None:
        return {}
    shared = resource_tags.of_shared(spec, account)

    def tagged(kind: str) -> dict[str, Any]:
        return {"TagSpecifications": [{"ResourceType": kind, "Tags": resource_tags.to_list(shared)}]}

    security_group = {
        "GroupName": f"gpulease/{spec.owner.installation}/{spec.group.group_id}",
        "Description": "Traffic between the members of a group of gpulease",
        **tagged("security-group"),
        **({"VpcId": vpc} if vpc is not None else {}),
    }
    cluster = _own_placement_group(spec, account)
    placement = {} if cluster is None else {"GroupName": cluster, "Strategy": _CLUSTER, **tagged("placement-group")}
    return {PART: {"SecurityGroup": security_group, "PlacementGroup": placement, "Efa": efa}}


@dataclass(frozen=True, slots=True)
class _SecurityGroups:
    """Ids of the group's own security group, and of the VPC's default one."""

    own: str
    default: str


class Ec2GroupResources:
    """Creates what members share. Remembers for a minute that it exists, so that many members cost few calls."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._known: Recent[_SecurityGroups] = Recent(monotonic)

    @contextmanager
    def ensure(self, ec2: "EC2Client", region: str, params: Params) -> Iterator[Params]:
        """Yields the parameters with the group's security group on each interface, and without `PART`.

        Parameters without a group are yielded unchanged. Raises NotReady when EC2 does not know what was created: the
        repeated launch creates it again. Raises ProviderError.
        """
        run = dict(params)
        group = run.pop(PART, None)
        if group is None:
            yield run
            return
        key = _key(region, group)
        groups = self._known.get(key)
        if groups is None:
            groups = _make(ec2, group)
            self._known.put(key, groups)
        try:
            yield {**run, "NetworkInterfaces": [*_joined(run, groups)]}
        except Refused as error:
            if error.code not in _MISSING or not _is_named(error.message, group, groups):
                raise
            self._known.forget(key)
            raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None


def _is_named(message: str, group: Params, groups: _SecurityGroups) -> bool:
    """Whether an error is about what the group's members share, not about a setting of the account."""
    own = (groups.own, group["PlacementGroup"].get("GroupName"))
    return any(name is not None and name in message for name in own)


def _key(region: str, group: Params) -> str:
    """What a group shares, without the tags, which are those of one member."""
    security_group, placement = group["SecurityGroup"], group["PlacementGroup"].get("GroupName")
    return f"{region}/{security_group.get('VpcId')}/{security_group['GroupName']}/{placement}/{group['Efa']}"


def _joined(run: Params, groups: _SecurityGroups) -> Iterator[dict[str, Any]]:
    """The interfaces with the group's security group.

    An interface without groups has the VPC's default group, but only while no other group is named. It keeps that group
    unless the lease names its networks.
    """
    usual = () if firewall.PART in run else (groups.default,)
    for interface in run["NetworkInterfaces"]:
        yield {**interface, "Groups": [*(interface.get("Groups") or usual), groups.own]}


def _make(ec2: "EC2Client", group: Params) -> _SecurityGroups:
    if group["PlacementGroup"]:
        with suppress(TokenConflict), translated():
            ec2.create_placement_group(**group["PlacementGroup"])
    with suppress(TokenConflict), translated():
        ec2.create_security_group(**group["SecurityGroup"])
    groups = _found(ec2, group["SecurityGroup"])
    members: list[Any] = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": groups.own}]}]
    with suppress(TokenConflict), translated():
        ec2.authorize_security_group_ingress(GroupId=groups.own, IpPermissions=members)
    if group["Efa"]:
        # EFA's traffic needs a rule about the group itself: the rule about all networks does not count.
        with suppress(TokenConflict), translated():
            ec2.authorize_security_group_egress(GroupId=groups.own, IpPermissions=members)
    return groups


def _found(ec2: "EC2Client", create: Params) -> _SecurityGroups:
    """The security group of this name with the group's tags, and the default group of its VPC."""
    name = create["GroupName"]
    ours = {tag["Key"]: tag["Value"] for tag in create["TagSpecifications"][0]["Tags"]}
    vpc = create.get("VpcId")
    filters: list[Any] = [{"Name": "group-name", "Values": [name, "default"]}]
    filters += [{"Name": "vpc-id", "Values": [vpc]}] if vpc is not None else []
    with translated():
        shown = part(ec2.describe_security_groups(Filters=filters), "SecurityGroups")
    for one in shown:
        theirs = resource_tags.to_dict(one.get("Tags"))
        if one["GroupName"] == name and all(theirs.get(key) == ours[key] for key in (tags.INSTALLATION, tags.GROUP)):
            defaults = [other for other in shown if other["GroupName"] == "default" and other["VpcId"] == one["VpcId"]]
            if defaults:
                return _SecurityGroups(str(one["GroupId"]), str(defaults[0]["GroupId"]))
    message = f"EC2 does not show the security group {name} as ours yet"
    raise NotReady(message, code="SecurityGroupNotShown", retry_after=_NOT_READY_SECONDS)


def remove_placement_group(ec2: "EC2Client", name: str) -> None:
    """Deletes a placement group; a missing one is success. Raises OutcomeUnknown while a VM is in it."""
    try:
        with translated():
            ec2.delete_placement_group(GroupName=name)
    except InvalidSpec as error:
        if error.code != _UNKNOWN:
            raise
