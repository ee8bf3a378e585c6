"""Looking at instances and ending them: lists, gets by id, client tokens, status checks."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.domain import tags
from app.domain.leases import VmState
from workers.providers.aws import resource_tags, vms
from workers.providers.aws.calls import FILTER_VALUES, chunks, pages, part, without_missing
from workers.providers.aws.errors import translated
from workers.providers.base import Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceStatusTypeDef, InstanceTypeDef

_IDS_PER_CALL = 100


def listed(ec2: "EC2Client", region: str, installation: str) -> Iterator[list[Vm]]:
    """Pages of this installation's VMs."""
    wanted = [resource_tags.tagged(tags.INSTALLATION, installation)]
    for page in pages(ec2, "describe_instances", Filters=wanted):
        yield vms.from_page(page, region)


def with_ids(ec2: "EC2Client", ids: Sequence[str]) -> "Iterator[InstanceTypeDef]":
    """Instances by a filter: unlike a call with ids, it leaves out the unknown ones instead of failing."""
    for chunk in chunks(ids, FILTER_VALUES):
        for page in pages(ec2, "describe_instances", Filters=[{"Name": "instance-id", "Values": chunk}]):
            yield from vms.instances(page)


def with_token(ec2: "EC2Client", region: str, token: str) -> list[Vm]:
    """VMs of a client token, those not gone first (the same token may have been used in two zones)."""
    wanted = [{"Name": "client-token", "Values": [token]}]
    found = [vm for page in pages(ec2, "describe_instances", Filters=wanted) for vm in vms.from_page(page, region)]
    return sorted(found, key=lambda vm: vm.state is VmState.GONE)


def passing_checks(ec2: "EC2Client", ids: Sequence[str]) -> Iterator[str]:
    """Running VMs whose instance and system status checks are both ok."""
    for chunk in chunks(ids, _IDS_PER_CALL):
        for answer in without_missing(lambda some: _statuses(ec2, some), chunk):
            yield from (status["InstanceId"] for status in answer if _ok(status))


def _statuses(ec2: "EC2Client", ids: list[str]) -> "list[InstanceStatusTypeDef]":
    """One answer: EC2 refuses ids together with a page size, and has no filter on ids here."""
    with translated():
        answer = ec2.describe_instance_status(InstanceIds=ids)
    return list(part(answer, "InstanceStatuses"))


def _ok(status: "InstanceStatusTypeDef") -> bool:
    checks = (status["InstanceStatus"]["Status"], status["SystemStatus"]["Status"])
    return status["InstanceState"]["Name"] == "running" and checks == ("ok", "ok")


def terminate(ec2: "EC2Client", ids: Sequence[str]) -> frozenset[str]:
    """Asks for the end of those that exist, and answers them."""
    answers = (
        answer for chunk in chunks(ids, _IDS_PER_CALL) for answer in without_missing(partial(_terminate, ec2), chunk)
    )
    return frozenset(one for known in answers for one in known)


def _terminate(ec2: "EC2Client", ids: list[str]) -> list[str]:
    with translated():
        ec2.terminate_instances(InstanceIds=ids)
    return ids
