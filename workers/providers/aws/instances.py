"""Operations on instances: listings, reads by id or client token, status checks, termination and reboot."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.domain import tags
from app.domain.leases import VmState
from workers.providers.aws import resource_tags, vms
from workers.providers.aws.calls import FILTER_VALUES, in_bulk, pages, part
from workers.providers.aws.errors import translated
from workers.providers.common.batch import ask_each, chunks, leave_out
from workers.providers.errors import NotFound, ProviderError
from workers.providers.types import BatchResult, ListingPage, Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceStatusTypeDef, InstanceTypeDef

IDS_PER_CALL = 100


def regions(ec2: "EC2Client") -> frozenset[str]:
    """The regions that are enabled for the account."""
    with translated():
        answer = ec2.describe_regions()
        return frozenset(region["RegionName"] for region in part(answer, "Regions"))


def listed(ec2: "EC2Client", region: str, installation: str) -> Iterator[ListingPage]:
    """Pages of this installation's VMs."""
    filters = [resource_tags.tagged(tags.INSTALLATION, installation)]
    for page in pages(ec2, "describe_instances", Filters=filters):
        yield vms.from_page(page, region)


def with_ids(
    ec2: "EC2Client", ids: Sequence[str]
) -> "tuple[dict[str, InstanceTypeDef | None], dict[str, ProviderError]]":
    """EC2's records by id, None for an unknown id; and the ids that could not be read, with their errors.

    The call uses a filter. Unlike a call with ids, a filter does not fail for an unknown id.
    """
    portions = {chunk[0]: chunk for chunk in chunks(ids, FILTER_VALUES)}
    answers, failed = ask_each(portions, lambda first: list(_with_ids(ec2, portions[first])))
    known: dict[str, InstanceTypeDef | None] = {}
    for first, instances in answers.items():
        named = {instance["InstanceId"]: instance for instance in instances if "InstanceId" in instance}
        known |= dict.fromkeys(portions[first]) | named
    return known, {instance_id: error for first, error in failed.items() for instance_id in portions[first]}


def _with_ids(ec2: "EC2Client", ids: list[str]) -> "Iterator[InstanceTypeDef]":
    for page in pages(ec2, "describe_instances", Filters=[{"Name": "instance-id", "Values": ids}]):
        yield from vms.instances(page)


def get(ec2: "EC2Client", region: str, ids: Sequence[str]) -> dict[str, Vm | None]:
    """VMs by id. Omits ids that could not be read. Raises the first error when no id could be read."""
    records, failed = with_ids(ec2, ids)
    existing = {instance_id: record for instance_id, record in records.items() if record is not None}
    read, odd = ask_each(existing, lambda instance_id: vms.read_instance(existing[instance_id], region))
    known: dict[str, Vm | None] = {**dict.fromkeys(records.keys() - existing.keys()), **read}
    leave_out(known, {**failed, **odd})
    return known


def with_token(ec2: "EC2Client", region: str, token: str) -> list[Vm]:
    """VMs of a client token, those that are gone last. The same token may have been used in two zones."""
    return [vm for _, vm in in_slots(ec2, region, token)]


def in_slots(ec2: "EC2Client", region: str, token: str) -> list[tuple[int, Vm]]:
    """As `with_token`, each VM with its launch index."""
    filters = [{"Name": "client-token", "Values": [token]}]
    matching: list[tuple[int, Vm]] = []
    for page in pages(ec2, "describe_instances", Filters=filters):
        with translated():
            matching += [vms.in_slot(instance, region) for instance in vms.instances(page)]
    return sorted(matching, key=lambda slot_and_vm: slot_and_vm[1].state is VmState.GONE)


def passing_checks(ec2: "EC2Client", ids: Sequence[str]) -> Iterator[str]:
    """Running VMs whose instance and system status checks are both ok."""
    answers, refused = in_bulk(partial(_statuses, ec2), ids, IDS_PER_CALL)
    leave_out(answers, {vm_id: error for vm_id, error in refused.items() if not isinstance(error, NotFound)})
    for status in (status for _, statuses in answers for status in statuses if "InstanceId" in status):
        if _ok(status):
            yield status["InstanceId"]


def _statuses(ec2: "EC2Client", ids: list[str]) -> "list[InstanceStatusTypeDef]":
    """Reads one response: EC2 refuses ids together with a page size, and this call has no filter on ids."""
    with translated():
        answer = ec2.describe_instance_status(InstanceIds=ids)
    return list(part(answer, "InstanceStatuses"))


def _ok(status: "InstanceStatusTypeDef") -> bool:
    """A record without a state or check does not count as passing."""
    checks = [status.get("InstanceStatus", {}).get("Status"), status.get("SystemStatus", {}).get("Status")]
    return status.get("InstanceState", {}).get("Name") == "running" and checks == ["ok", "ok"]


def terminate(ec2: "EC2Client", ids: Sequence[str]) -> BatchResult:
    """Requests termination of the VMs that exist. A VM with termination protection does not block the others."""
    answers, refused = in_bulk(partial(_terminate, ec2), ids, IDS_PER_CALL)
    return BatchResult(
        done=frozenset(vm_id for known, _ in answers for vm_id in known),
        refused={vm_id: error for vm_id, error in refused.items() if not isinstance(error, NotFound)},
    )


def _terminate(ec2: "EC2Client", ids: list[str]) -> None:
    with translated():
        ec2.terminate_instances(InstanceIds=ids)


def reboot(ec2: "EC2Client", ids: Sequence[str]) -> BatchResult:
    """Requests a reboot of each VM."""
    answers, refused = in_bulk(partial(_reboot, ec2), ids, IDS_PER_CALL)
    return BatchResult(done=frozenset(vm_id for known, _ in answers for vm_id in known), refused=refused)


def _reboot(ec2: "EC2Client", ids: list[str]) -> None:
    with translated():
        ec2.reboot_instances(InstanceIds=ids)
