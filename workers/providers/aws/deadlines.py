"""The deadline tag, renewed on a VM and on what belongs to it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.domain import tags
from workers.providers.aws import instances
from workers.providers.aws.calls import chunks, without_missing
from workers.providers.aws.errors import translated
from workers.providers.base import NotFound

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_IDS_PER_CALL = 200


def renew(ec2: "EC2Client", vm_ids: Sequence[str], deadline: datetime) -> None:
    """Tags all that exist, then raises NotFound naming the VMs that EC2 does not show."""
    found = list(instances.with_ids(ec2, vm_ids))
    resources = [one for instance in found for one in _resources(instance)]
    for chunk in chunks(resources, _IDS_PER_CALL):
        for _ in without_missing(lambda some: _tag(ec2, some, deadline), chunk):
            pass
    missing = sorted(set(vm_ids).difference(instance["InstanceId"] for instance in found))
    if missing:
        raise NotFound(
            f"no deadline written: EC2 does not show {', '.join(missing)}", code="InvalidInstanceID.NotFound"
        )


def _resources(instance: Any) -> Iterator[str]:
    yield instance["InstanceId"]
    yield from (mapping["Ebs"]["VolumeId"] for mapping in instance.get("BlockDeviceMappings", ()))
    yield from (interface["NetworkInterfaceId"] for interface in instance.get("NetworkInterfaces", ()))


def _tag(ec2: "EC2Client", ids: list[str], deadline: datetime) -> None:
    with translated():
        ec2.create_tags(Resources=ids, Tags=[{"Key": tags.DEADLINE, "Value": str(int(deadline.timestamp()))}])
