"""Placement groups of the strategy `cluster`, and what a launch in one must respect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cloudsim.ec2 import existing
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError, bad_value, dry_run
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.tag_rules import read_tags
from cloudsim.ec2.views import tag_list
from cloudsim.world import Order, Resource, ResourceKind, Vm

_CLUSTER = "cluster"
_LONGEST_NAME = 255
_FIELDS: dict[str, Callable[[Resource], str | Iterable[str] | None]] = {
    "group-name": lambda group: group.spec["name"],
    "state": lambda _: "available",
    "strategy": lambda _: _CLUSTER,
}


def create_placement_group(call: Call) -> Result:
    """A group in the region; names are unique there."""
    params = call.params
    name, strategy = params.get("GroupName", ""), params.get("Strategy", _CLUSTER)
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isascii():
        raise bad_value(name, "groupName", f"At most {_LONGEST_NAME} ASCII characters are allowed.")
    if strategy != _CLUSTER:
        raise bad_value(strategy, "strategy", "Only cluster is simulated.")
    if name in existing.PLACEMENT_GROUPS or _find(call, name) is not None:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    tags: dict[str, str] = {}
    for specification in params.get("TagSpecifications", []):
        if specification.get("ResourceType") != "placement-group":
            raise bad_value(specification.get("ResourceType"), "resourceType", "It is not the type that is created.")
        tags.update(read_tags(specification.get("Tags", [])))
    if call.params.get("DryRun"):
        raise dry_run()
    group = Resource(
        kind=ResourceKind.PLACEMENT_GROUP,
        provider=PROVIDER,
        account=call.account,
        region=call.region,
        zone="",
        id=f"pg-{call.world.hex(17)}",
        tags=tags,
        created_at=call.now,
        spec={"name": name},
    )
    call.world.add_resource(group)
    return {"PlacementGroup": _view(group)}


def describe_placement_groups(call: Call) -> Result:
    """All groups, or those named. EC2 does not page them."""
    params = call.params
    for name in params.get("GroupNames") or ():
        if _find(call, name) is None:
            raise unknown(name)
    matches = compiled(params.get("Filters", []), _FIELDS, lambda group: group.tags)
    names, ids = params.get("GroupNames"), params.get("GroupIds")
    return {
        "PlacementGroups": [
            _view(group)
            for group in call.listed(ResourceKind.PLACEMENT_GROUP)
            if matches(group) and (not names or group.spec["name"] in names) and (not ids or group.id in ids)
        ]
    }


def delete_placement_group(call: Call) -> Result:
    """Deletes a group without instances. Raises AwsError InvalidPlacementGroup.InUse."""
    name = call.params["GroupName"]
    group = _find(call, name)
    if group is None:
        raise unknown(name)
    if next(members(call, name), None) is not None:
        raise AwsError("InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use and may not be deleted.")
    if call.params.get("DryRun"):
        raise dry_run()
    call.world.remove_resource(group.id)
    return {}


def check(call: Call, order: Order) -> None:
    """Raises AwsError for a group that does not exist, or whose instances are in another zone.

    What an operator has made beforehand takes VMs in every zone.
    """
    name = order.spec["placement_group"]
    if not name or name in existing.PLACEMENT_GROUPS:
        return
    if _find(call, name) is None:
        raise unknown(name)
    for vm in members(call, name):
        if order.zones != (vm.zone,):
            raise AwsError(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{name}' is in use in another availability zone: {vm.zone}",
            )


def members(call: Call, name: str) -> Iterator[Vm]:
    """Instances in a group that have not ended."""
    return (vm for vm in call.shelf.after(0) if vm.alive and vm.spec.get("placement_group") == name)


def unknown(name: str) -> AwsError:
    """There is no such group."""
    return AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


def _find(call: Call, name: str) -> Resource | None:
    groups = call.resources(ResourceKind.PLACEMENT_GROUP)
    return next((group for group in groups if group.spec["name"] == name), None)


def _view(group: Resource) -> dict[str, Any]:
    return {
        "GroupName": group.spec["name"],
        "GroupId": group.id,
        "GroupArn": f"arn:aws:ec2:{group.region}:{group.account}:placement-group/{group.spec['name']}",
        "State": "available",
        "Strategy": _CLUSTER,
        "Tags": tag_list(group.tags),
    }
