"""Announced ends of spot VMs, read from the spot instance requests that RunInstances makes and tags.

EC2 user guide, "Spot Instance request status": marked-for-termination and marked-for-stop are set when the
notice is given, two minutes before the end, as best effort.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from app.domain import tags
from workers.providers.aws import resource_tags
from workers.providers.aws.calls import pages, part
from workers.providers.types import Interruption

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

NOTICE = timedelta(minutes=2)
_ACTIONS = {"marked-for-termination": "terminate", "marked-for-stop": "stop"}


def interruptions(ec2: "EC2Client", installation: str) -> list[Interruption]:
    """Notices given to VMs of this installation that are still up."""
    wanted = [
        {"Name": "status-code", "Values": list(_ACTIONS)},
        resource_tags.tagged(tags.INSTALLATION, installation),
    ]
    answers = pages(ec2, "describe_spot_instance_requests", Filters=wanted)
    return [_interruption(one) for page in answers for one in part(page, "SpotInstanceRequests") if "InstanceId" in one]


def _interruption(request: dict[str, Any]) -> Interruption:
    noticed: datetime = request["Status"]["UpdateTime"].astimezone(UTC)
    return Interruption(
        vm_id=request["InstanceId"],
        notice_at=noticed,
        deadline_at=noticed + NOTICE,
        action=_ACTIONS[request["Status"]["Code"]],
    )
