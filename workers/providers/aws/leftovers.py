"""Resources that a VM may leave behind, found by gpulease's tags: those that AWS bills, and free security groups and placement groups."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from app.domain import tags
from workers.providers.aws import firewall, groups, resource_tags
from workers.providers.aws.calls import FILTER_VALUES, pages, part
from workers.providers.aws.error_codes import NOT_ALLOWED
from workers.providers.aws.errors import translated
from workers.providers.common.batch import chunks
from workers.providers.errors import CredentialsRejected, NotFound
from workers.providers.types import Leftover

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef

log = structlog.get_logger(__name__)

VOLUME = "volume"
INTERFACE = "network_interface"
ADDRESS = "address"
GROUP = "security_group"
PLACEMENT_GROUP = "placement_group"

_FREE = "available"
_GOING = frozenset({"deleting", "deleted"})
_NOT_ENDED = ["pending", "running", "shutting-down", "stopping", "stopped"]


def of_leases(ec2: "EC2Client", region: str, installation: str, lease_ids: Sequence[str] | None) -> Iterator[Leftover]:
    """Leftover resources of these leases, or of the whole installation when None; `in_use` while a VM uses them."""
    for filters in _filters(installation, lease_ids):
        for page in pages(ec2, "describe_volumes", Filters=filters):
            yield from (_volume(disk, region) for disk in part(page, "Volumes") if _belongs_to_vm(disk))
        for page in pages(ec2, "describe_network_interfaces", Filters=filters):
            yield from (_interface(interface, region) for interface in part(page, "NetworkInterfaces"))
        with translated():
            answer = ec2.describe_addresses(Filters=filters)
        yield from (_address(address, region) for address in part(answer, "Addresses"))
        for page in pages(ec2, "describe_security_groups", Filters=filters):
            yield from _groups(ec2, part(page, "SecurityGroups"), region)
        yield from _placement_groups(ec2, filters, region)


def remove(ec2: "EC2Client", leftover: Leftover) -> None:
    """Removes a resource; a missing resource is success. Raises KeyError for a kind that is not AWS's."""
    call = _REMOVALS[leftover.kind]
    try:
        with translated():
            call(ec2, leftover.id)
    except NotFound:
        return


_REMOVALS: Mapping[str, Callable[["EC2Client", str], object]] = {
    VOLUME: lambda ec2, volume_id: ec2.delete_volume(VolumeId=volume_id),
    INTERFACE: lambda ec2, interface_id: ec2.delete_network_interface(NetworkInterfaceId=interface_id),
    ADDRESS: lambda ec2, address_id: ec2.release_address(AllocationId=address_id),
    GROUP: firewall.remove,
    PLACEMENT_GROUP: groups.remove_placement_group,
}


def _filters(installation: str, lease_ids: Sequence[str] | None) -> "Iterator[list[FilterTypeDef]]":
    ours = resource_tags.tagged(tags.INSTALLATION, installation)
    if lease_ids is None:
        yield [ours]
        return
    for chunk in chunks(lease_ids, FILTER_VALUES):
        yield [ours, resource_tags.tagged(tags.LEASE, *chunk)]


def _belongs_to_vm(disk: Any) -> bool:
    """Whether a VM made the disk, and it is not being deleted. A volume of a tenant outlives VMs."""
    return disk["State"] not in _GOING and tags.VOLUME not in resource_tags.to_dict(disk.get("Tags"))


def _volume(volume: Any, region: str) -> Leftover:
    return _leftover(VOLUME, volume["VolumeId"], region, volume.get("Tags"), in_use=volume["State"] == "in-use")


def _interface(interface: Any, region: str) -> Leftover:
    """An interface that is attached, `attaching` or `detaching` cannot be deleted yet."""
    used = interface["Status"] != _FREE
    return _leftover(INTERFACE, interface["NetworkInterfaceId"], region, interface.get("TagSet"), in_use=used)


def _address(address: Any, region: str) -> Leftover:
    return _leftover(
        ADDRESS, address["AllocationId"], region, address.get("Tags"), in_use=bool(address.get("AssociationId"))
    )


def _groups(ec2: "EC2Client", groups: Sequence[Any], region: str) -> Iterator[Leftover]:
    """A group does not show its users. The interfaces show them, including interfaces that gpulease did not create.

    The group that all VMs of the installation share names no lease. It stays.
    """
    owners = {group["GroupId"]: resource_tags.to_dict(group.get("Tags")) for group in groups}
    owners = {group_id: group_tags for group_id, group_tags in owners.items() if tags.LEASE in group_tags}
    used = set(_used(ec2, list(owners)))
    for group_id, group_tags in owners.items():
        yield Leftover(kind=GROUP, id=group_id, region=region, tags=group_tags, in_use=group_id in used, free=True)


def _used(ec2: "EC2Client", ids: Sequence[str]) -> Iterator[str]:
    for chunk in chunks(ids, FILTER_VALUES):
        for page in pages(ec2, "describe_network_interfaces", Filters=[{"Name": "group-id", "Values": chunk}]):
            for interface in part(page, "NetworkInterfaces"):
                yield from (group["GroupId"] for group in interface["Groups"])


def _placement_groups(ec2: "EC2Client", filters: "list[FilterTypeDef]", region: str) -> Iterator[Leftover]:
    """EC2 does not page them. Without the right to read them, which only groups need, there are none of ours."""
    try:
        with translated():
            answer = ec2.describe_placement_groups(Filters=filters)
    except CredentialsRejected as error:
        if error.code != NOT_ALLOWED:
            raise
        log.info("placement groups not read", region=region, error=error.message)
        return
    for group in part(answer, "PlacementGroups"):
        if group["State"] in _GOING:
            continue
        name = group["GroupName"]
        group_tags = resource_tags.to_dict(group.get("Tags"))
        in_use = _has_vms(ec2, name)
        yield Leftover(kind=PLACEMENT_GROUP, id=name, region=region, tags=group_tags, in_use=in_use, free=True)


def _has_vms(ec2: "EC2Client", placement_group: str) -> bool:
    """Whether a VM that has not ended is in a placement group."""
    filters: list[FilterTypeDef] = [
        {"Name": "placement-group-name", "Values": [placement_group]},
        {"Name": "instance-state-name", "Values": _NOT_ENDED},
    ]
    return any(part(page, "Reservations") for page in pages(ec2, "describe_instances", Filters=filters))


def _leftover(
    kind: str, resource_id: str, region: str, tag_list: list[dict[str, str]] | None, *, in_use: bool
) -> Leftover:
    return Leftover(kind=kind, id=resource_id, region=region, tags=resource_tags.to_dict(tag_list), in_use=in_use)
