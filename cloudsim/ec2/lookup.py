"""Resources by id, with EC2's error for each kind."""

from __future__ import annotations

from cloudsim.ec2.call import Call
from cloudsim.ec2.errors import AwsError
from cloudsim.world import Resource, ResourceKind

_MISSING = {
    ResourceKind.VOLUME: ("InvalidVolume.NotFound", "The volume '{}' does not exist."),
    ResourceKind.NETWORK_INTERFACE: (
        "InvalidNetworkInterfaceID.NotFound",
        "The networkInterface ID '{}' does not exist",
    ),
    ResourceKind.ADDRESS: ("InvalidAllocationID.NotFound", "The allocation ID '{}' does not exist"),
    ResourceKind.PLACEMENT_GROUP: ("InvalidPlacementGroup.Unknown", "The Placement Group '{}' is unknown."),
    ResourceKind.SECURITY_GROUP: ("InvalidGroup.NotFound", "The security group '{}' does not exist"),
}


def missing(kind: ResourceKind, resource_id: str) -> AwsError:
    """There is no such thing."""
    code, text = _MISSING[kind]
    return AwsError(code, text.format(resource_id))


def named(call: Call, kind: ResourceKind, ids: list[str] | None) -> list[Resource]:
    """The caller's resources with these ids, all that lists show for None. Raises AwsError for a missing one."""
    if not ids:
        return call.listed(kind)
    resources = []
    for resource_id in ids:
        resource = call.resource(kind, resource_id)
        if resource is None:
            raise missing(kind, resource_id)
        resources.append(resource)
    return resources
