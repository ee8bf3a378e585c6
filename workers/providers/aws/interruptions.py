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


def interruptions(ec2: "EC2Client", installation: str, now: datetime) -> list[Interruption]:
    """Notices given to VMs of this installation that are still up. `now`: the time of a notice that does not say its own."""
    filters = [
        {"Name": "status-code", "Values": list(_ACTIONS)},
        resource_tags.tagged(tags.INSTALLATION, installation),
    ]
    answers = pages(ec2, "describe_spot_instance_requests", Filters=filters)
    requests = (request for page in answers for request in part(page, "SpotInstanceRequests"))
    return [_interruption(request, now) for request in requests if _is_notice(request)]


def _is_notice(request: dict[str, Any]) -> bool:
    return "InstanceId" in request and request.get("Status", {}).get("Code") in _ACTIONS


def _interruption(request: dict[str, Any], now: datetime) -> Interruption:
    """Without a time of its own, a notice has no known deadline."""
    noticed: datetime | None = request["Status"].get("UpdateTime")
    return Interruption(
        vm_id=request["InstanceId"],
        notice_at=noticed.astimezone(UTC) if noticed is not None else now,
        deadline_at=noticed.astimezone(UTC) + NOTICE if noticed is not None else None,
        action=_ACTIONS[request["Status"]["Code"]],
    )
