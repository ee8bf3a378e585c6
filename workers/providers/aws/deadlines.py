"""The deadline tag, renewed on a VM and on what belongs to it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.domain import tags
from workers.providers.aws import instances
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
    found = {one: instance for one, instance in known.items() if instance is not None}
    refused |= {one: _missing(one) for one, instance in known.items() if instance is None}
    belongings = [one for instance in found.values() for one in _belongings(instance)]
    _, failed = in_bulk(lambda some: _tag(ec2, some, deadline), [*found, *belongings], _IDS_PER_CALL)
    refused |= {one: error for one, error in failed.items() if one in found or not isinstance(error, NotFound)}
    return BatchResult(done=frozenset(found.keys() - refused.keys()), refused=refused)


def _missing(vm_id: str) -> ProviderError:
    return NotFound(f"no deadline written: EC2 does not show {vm_id}", code="InvalidInstanceID.NotFound")


def _belongings(instance: Any) -> Iterator[str]:
    yield from (mapping["Ebs"]["VolumeId"] for mapping in instance.get("BlockDeviceMappings", ()))
    yield from (interface["NetworkInterfaceId"] for interface in instance.get("NetworkInterfaces", ()))


def _tag(ec2: "EC2Client", ids: list[str], deadline: datetime) -> None:
    with translated():
        ec2.create_tags(Resources=ids, Tags=[{"Key": tags.DEADLINE, "Value": str(int(deadline.timestamp()))}])
