"""The deadline tag, renewed on a VM and on what belongs to it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from app.domain import tags
from workers.providers.aws import instances, resource_tags
from workers.providers.aws.calls import in_bulk
from workers.providers.aws.errors import translated
from workers.providers.errors import NotFound, ProviderError
from workers.providers.types import BatchResult

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_IDS_PER_CALL = 200


def renew(ec2: "EC2Client", vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
    """Tags all of them in one call, VMs first: their tags are the ones that count."""
    known, refused = instances.with_ids(ec2, vm_ids)
    existing = {vm_id: instance for vm_id, instance in known.items() if instance is not None}
    refused |= {vm_id: missing(vm_id) for vm_id, instance in known.items() if instance is None}
    belongings = [resource_id for instance in existing.values() for resource_id in belonging(instance)]
    _, failed = in_bulk(lambda some: _tag(ec2, some, deadline), [*existing, *belongings], _IDS_PER_CALL)
    refused |= {
        resource_id: error
        for resource_id, error in failed.items()
        if resource_id in existing or not isinstance(error, NotFound)
    }
    return BatchResult(done=frozenset(existing.keys() - refused.keys()), refused=refused)


def missing(vm_id: str) -> ProviderError:
    """The error of a VM whose tags cannot be written."""
    return NotFound(f"no tag written: EC2 does not show {vm_id}", code="InvalidInstanceID.NotFound")


def belonging(instance: Any) -> Iterator[str]:
    """Ids of the disks and network interfaces of a VM. A disk that outlives the VM does not belong to it."""
    disks = (mapping.get("Ebs", {}) for mapping in instance.get("BlockDeviceMappings", ()))
    volumes = (disk.get("VolumeId") for disk in disks if disk.get("DeleteOnTermination", True))
    interfaces = (interface.get("NetworkInterfaceId") for interface in instance.get("NetworkInterfaces", ()))
    yield from (resource_id for resource_id in (*volumes, *interfaces) if resource_id)


def _tag(ec2: "EC2Client", ids: list[str], deadline: datetime) -> None:
    write(ec2, ids, {tags.DEADLINE: str(int(deadline.timestamp()))})


def write(ec2: "EC2Client", ids: list[str], values: Mapping[str, str]) -> None:
    """Sets tags on all of these resources, or on none. Raises ProviderError."""
    with translated():
        ec2.create_tags(Resources=ids, Tags=cast("Any", resource_tags.to_list(values)))
