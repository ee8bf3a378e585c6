"""What VMs share at EC2. Members of a group: a security group that opens them to each other, and a cluster placement group.

A VM that would have no other security group is in the installation's own one, which lets nothing in, not even from
itself. EC2 would otherwise attach the VPC's default group, whose members reach each other.

Every launch creates what its VM shares, from parameters stored with those of RunInstances, under names derived from the
ids of the group and of the installation. A repeat and the other VMs find it. It costs nothing. EC2 deletes the resources
of a group only when no VM uses them, so gpulease removes them as leftover resources. The installation's security group
stays. A refused launch leaves all of it: other VMs may be about to use it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from app.domain import tags
from app.domain.offerings import Market
from workers.providers.aws import resource_tags
from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.aws.settings import AwsAccount
from workers.providers.common.recent import MinuteCache
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
    """{"Group": …} for a member of a group, and for a VM without any other security group. Else nothing.

    `vpc` None means the region's default VPC.
    """
    if spec.group is not None:
        name, shared = spec.group.group_id, resource_tags.of_shared(spec, account)
        description = "Traffic between the members of a group of gpulease"
    elif account.security_group_ids or spec.allowed_cidrs:
        return {}
    else:
        name, shared = "/".join(("closed", *filter(None, (vpc,)))), resource_tags.of_installation(spec, account)
        description = "Lets nothing into VMs of gpulease"

    def tagged(kind: str) -> dict[str, Any]:
        return {"TagSpecifications": [{"ResourceType": kind, "Tags": resource_tags.to_list(shared)}]}

    security_group = {
        "GroupName": f"gpulease/{spec.owner.installation}/{name}",
        "Description": description,
        **tagged("security-group"),
        **({"VpcId": vpc} if vpc is not None else {}),
    }
    cluster = _own_placement_group(spec, account)
    placement = {} if cluster is None else {"GroupName": cluster, "Strategy": _CLUSTER, **tagged("placement-group")}
    opened = {"Members": spec.group is not None, "Efa": efa}
    return {PART: {"SecurityGroup": security_group, "PlacementGroup": placement, **opened}}


class Ec2GroupResources:
    """Creates what VMs share. Remembers for a minute that it exists, so that many VMs cost few calls."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._known: MinuteCache[str] = MinuteCache(monotonic)

    @contextmanager
    def ensure(self, ec2: "EC2Client", region: str, params: Params) -> Iterator[Params]:
        """Yields the parameters with the shared security group on each interface, and without `PART`.

        Parameters without `PART` are yielded unchanged. Raises NotReady when EC2 does not know what was created: the
        repeated launch creates it again. Raises ProviderError.
        """
        run = dict(params)
        group = run.pop(PART, None)
        if group is None:
            yield run
            return
        key = _key(region, group)
        group_id = self._known.get(key)
        if group_id is None:
            group_id = _make(ec2, group)
            self._known.put(key, group_id)
        try:
            yield {**run, "NetworkInterfaces": [*_joined(run, group_id)]}
        except Refused as error:
            if error.code not in _MISSING or not _is_named(error.message, group, group_id):
                raise
            self._known.forget(key)
            raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None


def _is_named(message: str, group: Params, group_id: str) -> bool:
    """Whether an error is about what VMs share, not about a setting of the account."""
    own = (group_id, group["PlacementGroup"].get("GroupName"))
    return any(name is not None and name in message for name in own)


def _key(region: str, group: Params) -> str:
    """What a group shares, without the tags, which are those of one member."""
    security_group, placement = group["SecurityGroup"], group["PlacementGroup"].get("GroupName")
    return f"{region}/{security_group.get('VpcId')}/{security_group['GroupName']}/{placement}/{group['Efa']}"


def _joined(run: Params, group_id: str) -> Iterator[dict[str, Any]]:
    """The interfaces with the shared security group."""
    for interface in run["NetworkInterfaces"]:
        yield {**interface, "Groups": [*interface.get("Groups", ()), group_id]}


def _make(ec2: "EC2Client", group: Params) -> str:
    """Creates what is missing. Returns the id of the security group."""
    if group["PlacementGroup"]:
        with suppress(TokenConflict), translated():
            ec2.create_placement_group(**group["PlacementGroup"])
    create = group["SecurityGroup"]
    group_id = _find_group(ec2, create)
    if group_id is None:
        with suppress(TokenConflict), translated():
            ec2.create_security_group(**create)
        group_id = _find_group(ec2, create)
    if group_id is None:
        message = f"EC2 does not show the security group {create['GroupName']} as ours yet"
        raise NotReady(message, code="SecurityGroupNotShown", retry_after=_NOT_READY_SECONDS)
    members: list[Any] = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}]
    if group["Members"]:
        with suppress(TokenConflict), translated():
            ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=members)
    if group["Efa"]:
        # EFA's traffic needs a rule about the group itself: the rule about all networks does not count.
        with suppress(TokenConflict), translated():
            ec2.authorize_security_group_egress(GroupId=group_id, IpPermissions=members)
    return group_id


def _find_group(ec2: "EC2Client", create: Params) -> str | None:
    """The security group of this name with the tags of the same owner."""
    ours = {tag["Key"]: tag["Value"] for tag in create["TagSpecifications"][0]["Tags"]}
    vpc = create.get("VpcId")
    filters: list[Any] = [{"Name": "group-name", "Values": [create["GroupName"]]}]
    filters += [{"Name": "vpc-id", "Values": [vpc]}] if vpc is not None else []
    with translated():
        candidates = part(ec2.describe_security_groups(Filters=filters), "SecurityGroups")
    for candidate in candidates:
        theirs = resource_tags.to_dict(candidate.get("Tags"))
        if all(theirs.get(key) == ours.get(key) for key in (tags.INSTALLATION, tags.GROUP)):
            return str(candidate["GroupId"])
    return None


def remove_placement_group(ec2: "EC2Client", name: str) -> None:
    """Deletes a placement group; a missing one is success. Raises OutcomeUnknown while a VM is in it."""
    try:
        with translated():
            ec2.delete_placement_group(GroupName=name)
    except InvalidSpec as error:
        if error.code != _UNKNOWN:
            raise
