"""Security groups: the default one of each VPC, and those that were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2 import default_vpc
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.instances import refuse_dry_run
from cloudsim.ec2.interfaces import group_ids
from cloudsim.ec2.lookup import missing
from cloudsim.ec2.paging import page
from cloudsim.ec2.tag_rules import read_tags
from cloudsim.ec2.views import tag_list
from cloudsim.world import Resource, ResourceKind

Item = dict[str, Any]
Field = Callable[[Item], str | Iterable[str] | None]
_GROUP_FIELDS: dict[str, Field] = {
    "group-id": lambda item: item["GroupId"],
    "group-name": lambda item: item["GroupName"],
    "vpc-id": lambda item: item["VpcId"],
}


def _tags_of(item: Item) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in item["Tags"]}


def describe_security_groups(call: Call) -> Result:
    """The default group and those that were made."""
    made = [_made_group(call, group) for group in call.listed(ResourceKind.SECURITY_GROUP)]
    default = _default_group(call)
    items = _chosen(call, {item["GroupId"]: item for item in (default, *made)})
    matches = compiled(call.params.get("Filters", []), _GROUP_FIELDS, _tags_of)
    page_items, token = page(filter(matches, items), lambda item: item["GroupId"], call)
    return {"SecurityGroups": page_items, "NextToken": token}


def _chosen(call: Call, by_id: dict[str, Item]) -> list[Item]:
    ids, names = call.params.get("GroupIds"), call.params.get("GroupNames")
    for group_id in ids or []:
        if group_id not in by_id:
            raise missing(ResourceKind.SECURITY_GROUP, group_id)
    chosen = [by_id[group_id] for group_id in ids] if ids else list(by_id.values())
    return [item for item in chosen if not names or item["GroupName"] in names]


def _group(call: Call, group_id: str, name: str, description: str) -> Item:
    return {
        "GroupId": group_id,
        "GroupName": name,
        "Description": description,
        "OwnerId": call.account,
        "VpcId": default_vpc.vpc_id(call.account, call.region),
        "IpPermissions": [],
        "IpPermissionsEgress": [
            {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "Ipv6Ranges": [], "UserIdGroupPairs": []}
        ],
        "Tags": [],
    }


def _default_group(call: Call) -> Item:
    """Its members reach each other, as EC2 makes the default group of each VPC."""
    item = _group(
        call, default_vpc.default_group_id(call.account, call.region), "default", "default VPC security group"
    )
    members = [{"UserId": call.account, "GroupId": item["GroupId"]}]
    rule = {"IpProtocol": "-1", "IpRanges": [], "Ipv6Ranges": [], "UserIdGroupPairs": members}
    return {**item, "IpPermissions": [rule]}


def _made_group(call: Call, group: Resource) -> Item:
    item = _group(call, group.id, group.spec["name"], group.spec["description"])
    egress = [*item["IpPermissionsEgress"], *group.spec.get("egress", [])]
    return {
        **item,
        "IpPermissions": group.spec["permissions"],
        "IpPermissionsEgress": egress,
        "Tags": tag_list(group.tags),
    }


def create_security_group(call: Call) -> Result:
    """A group in the default VPC; names are unique there."""
    params = call.params
    vpc = default_vpc.vpc_id(call.account, call.region)
    if params.get("VpcId", vpc) != vpc:
        raise AwsError("InvalidVpcID.NotFound", f"The vpc ID '{params['VpcId']}' does not exist")
    name = params["GroupName"]
    if name == "default" or any(group.spec["name"] == name for group in call.resources(ResourceKind.SECURITY_GROUP)):
        raise AwsError("InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{vpc}'")
    tags: dict[str, str] = {}
    for specification in params.get("TagSpecifications", []):
        tags.update(read_tags(specification.get("Tags", [])))
    refuse_dry_run(call)
    group = Resource(
        kind=ResourceKind.SECURITY_GROUP,
        provider=PROVIDER,
        account=call.account,
        region=call.region,
        zone="",
        id=f"sg-{call.world.hex(17)}",
        tags=tags,
        created_at=call.now,
        spec={"name": name, "description": params["Description"], "permissions": []},
    )
    call.world.add_resource(group)
    return {
        "GroupId": group.id,
        "SecurityGroupArn": f"arn:aws:ec2:{call.region}:{call.account}:security-group/{group.id}",
        "Tags": tag_list(tags),
    }


def _own_group(call: Call) -> Resource:
    group_id = call.params.get("GroupId")
    if group_id is None:
        raise AwsError("MissingParameter", "The request must contain the parameter GroupId")
    group = call.resource(ResourceKind.SECURITY_GROUP, group_id)
    if group is None:
        raise missing(ResourceKind.SECURITY_GROUP, group_id)
    return group


def authorize_security_group_ingress(call: Call) -> Result:
    """Let traffic in. Raises AwsError InvalidPermission.Duplicate for a rule that stands already."""
    return _authorize(call, "permissions", is_egress=False)


def authorize_security_group_egress(call: Call) -> Result:
    """Let traffic out, besides the rule about all networks that every group has."""
    return _authorize(call, "egress", is_egress=True)


def _authorize(call: Call, rules: str, *, is_egress: bool) -> Result:
    group = _own_group(call)
    rules_given = call.params.get("IpPermissions")
    if not rules_given:
        raise bad_value("", "ipPermissions", "Rules are given as IpPermissions here.")
    permissions = [_permission(call, raw) for raw in rules_given]
    standing = group.spec.get(rules, [])
    if any(permission in standing for permission in permissions):
        raise AwsError("InvalidPermission.Duplicate", "the specified rule already exists")
    refuse_dry_run(call)
    group.spec[rules] = [*standing, *permissions]
    call.world.touch_resource(group.id)
    answer_rules = [_rule(call, group, raw, is_egress=is_egress) for raw in permissions]
    return {"Return": True, "SecurityGroupRules": answer_rules}


def _permission(call: Call, raw: Item) -> Item:
    """Raises AwsError for a rule about a group that does not exist."""
    for pair in raw.get("UserIdGroupPairs", []):
        if call.resource(ResourceKind.SECURITY_GROUP, pair.get("GroupId", "")) is None:
            raise missing(ResourceKind.SECURITY_GROUP, pair.get("GroupId", ""))
    pairs = [{"UserId": call.account, **pair} for pair in raw.get("UserIdGroupPairs", [])]
    return {"IpRanges": [], "Ipv6Ranges": [], **raw, "UserIdGroupPairs": pairs}


def _rule(call: Call, group: Resource, permission: Item, *, is_egress: bool) -> Item:
    ranges = permission["IpRanges"]
    return {
        "SecurityGroupRuleId": f"sgr-{call.world.hex(17)}",
        "GroupId": group.id,
        "GroupOwnerId": group.account,
        "IsEgress": is_egress,
        "IpProtocol": permission.get("IpProtocol"),
        "FromPort": permission.get("FromPort"),
        "ToPort": permission.get("ToPort"),
        "CidrIpv4": ranges[0].get("CidrIp") if ranges else None,
    }


def delete_security_group(call: Call) -> Result:
    """Delete a group that no interface is in."""
    group = _own_group(call)
    if any(group.id in group_ids(nic) for nic in call.resources(ResourceKind.NETWORK_INTERFACE)):
        raise AwsError("DependencyViolation", f"resource {group.id} has a dependent object")
    refuse_dry_run(call)
    call.world.remove_resource(group.id)
    return {"Return": True, "GroupId": group.id}
