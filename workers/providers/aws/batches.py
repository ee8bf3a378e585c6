"""Launch batches: several VMs of one tenant with one RunInstances call, each known by its launch index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from workers.providers.aws import deadlines, firewall, groups, instances, launch, resource_tags, vms
from workers.providers.aws.calls import in_bulk
from workers.providers.aws.errors import translated
from workers.providers.aws.launch import LaunchPlace
from workers.providers.aws.settings import AwsAccount
from workers.providers.common import slot_tokens
from workers.providers.common.batch import each
from workers.providers.errors import InsufficientCapacity, NotFound, OutcomeUnknown, ProviderError
from workers.providers.types import BatchLaunched, BatchResult, LaunchSpec, Params, Slot, Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

    from app.domain.tags import OwnerTags

_IDS_PER_CALL = 200


def plan(
    spec: LaunchSpec,
    account: AwsAccount,
    batch_id: str,
    token: str,
    slots: Sequence[Slot],
    **place: Unpack[LaunchPlace],
) -> Params:
    """As `launch.plan`, for one to all of the slots.

    The security group carries the owner of the first slot. It is removed when this attempt is over and no VM uses it.
    """
    owned = replace(slot_tokens.shared(spec), token=token, owner=slots[0].owner)
    single = launch.plan(owned, account, **place)
    subnet, tags = place["subnet"], resource_tags.of_batch(spec, account, batch_id)
    group_tags = {**tags, **slots[0].owner.as_tags()}
    return {
        **single,
        "MinCount": 1,
        "MaxCount": len(slots),
        "TagSpecifications": launch.tag_specifications(spec, tags),
        **firewall.plan(owned, subnet.vpc if subnet is not None else None, group_tags),
    }


def create(ec2: "EC2Client", region: str, params: Params, shared: groups.Ec2GroupResources) -> BatchLaunched:
    """Creates the security and placement groups, then calls RunInstances. Raises ProviderError."""
    records = launch.run(ec2, region, params, shared)
    with translated():
        vms_in_slots = [vms.in_slot(record, region) for record in records]
    size = params["MaxCount"]
    started = dict(vms_in_slots)
    if len(started) < len(vms_in_slots) or not started.keys() <= set(range(size)):
        raise OutcomeUnknown(f"the launch indexes are not those of {size} VMs", code="MalformedAnswer")
    error = InsufficientCapacity(
        f"EC2 has started {len(started)} of the {size} VMs of one call: it has no capacity for more",
        code="InsufficientInstanceCapacity",
    )
    return BatchLaunched(vms=started, missing={slot: error for slot in range(size) if slot not in started})


def find(ec2: "EC2Client", region: str, params: Params) -> dict[int, Vm]:
    """VMs by slot. A VM that exists comes before one that has ended."""
    vms_by_slot: dict[int, Vm] = {}
    for slot, vm in instances.in_slots(ec2, region, params["ClientToken"]):
        if slot < params["MaxCount"]:
            vms_by_slot.setdefault(slot, vm)
    return vms_by_slot


def label(ec2: "EC2Client", owners: "Mapping[str, OwnerTags]", names: Mapping[str, str]) -> BatchResult:
    """Tags each VM together with its volumes and interfaces. One of them that has gone does not block the others."""
    known, refused = instances.with_ids(ec2, list(owners))
    refused |= {vm_id: deadlines.missing(vm_id) for vm_id, instance in known.items() if instance is None}
    belongings = {vm_id: list(deadlines.belonging(instance)) for vm_id, instance in known.items() if instance}
    left: dict[str, ProviderError] = {}

    def tag(vm_id: str) -> bool:
        values = resource_tags.of_slot(owners[vm_id], names.get(vm_id))
        failed = _write(ec2, [vm_id, *belongings[vm_id]], values)
        left.update(
            {
                resource_id: error
                for resource_id, error in failed.items()
                if not isinstance(error, NotFound) or resource_id == vm_id
            }
        )
        if vm_id in failed:
            raise failed[vm_id]
        return True

    result = each(belongings, tag)
    return BatchResult(done=result.done, refused={**left, **result.refused, **refused})


def _write(ec2: "EC2Client", ids: Iterable[str], values: Mapping[str, str]) -> dict[str, ProviderError]:
    _, failed = in_bulk(lambda some: deadlines.write(ec2, some, values), list(ids), _IDS_PER_CALL)
    return failed
