"""EC2 instances as the interface's VMs."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import structlog

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import BATCH
from workers.providers.aws import resource_tags
from workers.providers.aws.calls import part
from workers.providers.aws.errors import refusal_of, translated
from workers.providers.errors import ProviderError
from workers.providers.types import ListingPage, Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import DescribeInstancesResultTypeDef, InstanceTypeDef

log = structlog.get_logger(__name__)

STATES: Mapping[str, VmState] = {
    "pending": VmState.PENDING,
    "running": VmState.RUNNING,
    "shutting-down": VmState.ENDING,
    "stopping": VmState.ENDING,
    "stopped": VmState.STOPPED,
    "terminated": VmState.GONE,
}
INTERRUPTED = frozenset({"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"})
"""StateReason codes of a VM that EC2 took back."""

_LIVE = frozenset({VmState.PENDING, VmState.RUNNING})
_TRANSITION_TIME = re.compile(r"\((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) (?:GMT|UTC)\)")


def from_page(page: "DescribeInstancesResultTypeDef", region: str) -> ListingPage:
    """The VMs of one page of DescribeInstances.

    A record that cannot be read hides its zone. One that names no zone fails the region.
    """
    vms: list[Vm] = []
    hidden: set[str] = set()
    failed: dict[str, ProviderError] = {}
    for instance in instances(page):
        try:
            vms.append(read_instance(instance, region))
        except ProviderError as error:
            zone = _zone(instance)
            log.warning("unreadable VM", instance_id=instance.get("InstanceId"), zone=zone, error=error.message)
            if zone:
                hidden.add(zone)
            else:
                failed[region] = error
    return ListingPage(vms=vms, unreachable=frozenset(hidden), failed=failed)


def instances(page: "DescribeInstancesResultTypeDef") -> "Iterator[InstanceTypeDef]":
    """EC2's own records of one page."""
    for reservation in part(page, "Reservations"):
        yield from reservation.get("Instances", ())


def read_instance(instance: "InstanceTypeDef", region: str) -> Vm:
    """As `from_instance`. Raises OutcomeUnknown for a record without id or state."""
    with translated():
        return from_instance(instance, region)


def in_slot(instance: "InstanceTypeDef", region: str) -> tuple[int, Vm]:
    """The VM, and its index among the VMs of one RunInstances call."""
    return instance["AmiLaunchIndex"], from_instance(instance, region)


def from_instance(instance: "InstanceTypeDef", region: str) -> Vm:
    """One record of DescribeInstances or RunInstances. `ended_at` and reason only once it is ending.

    Raises KeyError for a record without id or state.
    """
    state = _state(instance)
    ended = state not in _LIVE
    reason = instance.get("StateReason") if ended else None
    code = reason.get("Code") if reason else None
    vm_tags = resource_tags.of_vm(cast("Any", instance.get("Tags")))
    return Vm(
        id=instance["InstanceId"],
        region=region,
        zone=_zone(instance),
        instance_type=instance.get("InstanceType", ""),
        market=_market(instance),
        state=state,
        tags=vm_tags,
        launch_identity=instance.get("ClientToken") or None,
        batch=(vm_tags[BATCH], instance.get("AmiLaunchIndex", 0)) if BATCH in vm_tags else None,
        launched_at=_utc(instance.get("LaunchTime")),
        ended_at=transition_time(instance.get("StateTransitionReason")) if ended else None,
        public_ip=instance.get("PublicIpAddress"),
        private_ip=instance.get("PrivateIpAddress"),
        state_reason={"code": code, "message": reason.get("Message")} if reason else None,
        interrupted=code in INTERRUPTED,
        refusal=refusal_of(code, reason.get("Message") if reason else None),
    )


def _zone(instance: "InstanceTypeDef") -> str:
    """The zone, or "" in a record that does not name it."""
    return instance.get("Placement", {}).get("AvailabilityZone", "")


def _market(instance: "InstanceTypeDef") -> Market:
    """An On-Demand Capacity Reservation shows only as the target that the launch named."""
    if instance.get("InstanceLifecycle") == "spot":
        return Market.SPOT
    target = instance.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget")
    return Market.RESERVED if target else Market.ON_DEMAND


def _state(instance: "InstanceTypeDef") -> VmState:
    """A VM in a state that is not known here counts as neither running nor lost: the listing goes on for the others."""
    name = instance["State"]["Name"]
    if name not in STATES:
        log.warning("unknown VM state", instance_id=instance["InstanceId"], state=name)
    return STATES.get(name, VmState.PENDING)


def transition_time(text: str | None) -> datetime | None:
    """The time inside "User initiated (2026-11-20 12:34:56 GMT)", UTC; EC2 keeps it nowhere else."""
    match = _TRANSITION_TIME.search(text or "")
    return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if match else None


def _utc(time: datetime | None) -> datetime | None:
    return time.astimezone(UTC) if time is not None else None
