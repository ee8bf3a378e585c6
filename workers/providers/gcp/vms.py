"""Compute Engine instances as the interface's VMs."""

from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from app.domain.leases import VmState
from app.domain.offerings import Market
from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp import catalogue, resource_tags
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import Instance
from workers.providers.types import Vm

log = structlog.get_logger(__name__)

STATES: Mapping[str, VmState] = {
    "PENDING": VmState.QUEUED,
    "PROVISIONING": VmState.PENDING,
    "STAGING": VmState.PENDING,
    "REPAIRING": VmState.PENDING,
    "RUNNING": VmState.RUNNING,
    "PENDING_STOP": VmState.ENDING,
    "STOPPING": VmState.ENDING,
    "DEPROVISIONING": VmState.ENDING,
    "SUSPENDING": VmState.ENDING,
    "STOPPED": VmState.STOPPED,
    "SUSPENDED": VmState.STOPPED,
    "TERMINATED": VmState.STOPPED,
}
"""Instance lifecycle, Compute Engine guide. TERMINATED means stopped: its disks are still billed.

PENDING: a flex-start VM waits in the queue for capacity.
"""

_LIVE = frozenset({VmState.QUEUED, VmState.PENDING, VmState.RUNNING})

FLEX_START_MODEL, BOUND_MODEL = "FLEX_START", "RESERVATION_BOUND"
"""Values of `provisioningModel`."""


def described(token: str) -> str:
    """What a VM's description holds: the launch token in full. It proves nothing: a copy of the VM has it too."""
    return f"gpulease {token}"


def from_instance(instance: Instance, region: str) -> Vm:
    """One record of a list. `ended_at` and reason only once it is ending or stopped."""
    instance = Instance.pb(instance)  # the SDK's own access takes nine times as long
    state = _state(instance)
    zone = last(instance.zone)
    nics = instance.network_interfaces
    addresses = [config.nat_i_p for nic in nics for config in nic.access_configs if config.nat_i_p]
    return Vm(
        id=str(Id(zone, instance.name, str(instance.id))),
        region=region,
        zone=zone,
        instance_type=type_name(instance),
        market=market_of(
            instance.scheduling.provisioning_model, instance.reservation_affinity.consume_reservation_type
        ),
        state=state,
        tags=resource_tags.of_vm(instance.labels, _metadata(instance, resource_tags.METADATA)),
        launch_identity=instance.name or None,
        batch=resource_tags.batch_of(instance.labels, _metadata(instance, resource_tags.SLOTS), instance.name),
        launched_at=time_of(instance.creation_timestamp),
        ended_at=time_of(instance.last_stop_timestamp) if state is VmState.STOPPED else None,
        public_ip=addresses[0] if addresses else None,
        private_ip=nics[0].network_i_p or None if nics else None,
        state_reason=None if state in _LIVE else {"code": instance.status, "message": instance.status_message or None},
    )


def _metadata(instance: Instance, key: str) -> str | None:
    return next((item.value for item in instance.metadata.items if item.key == key), None)


def market_of(model: str | None, consumed: str | None) -> Market:
    """The market of a VM. `model`: its provisioningModel. `consumed`: its consumeReservationType."""
    if model == "SPOT":
        return Market.SPOT
    reserved = model in {FLEX_START_MODEL, BOUND_MODEL} or consumed == "SPECIFIC_RESERVATION"
    return Market.RESERVED if reserved else Market.ON_DEMAND


def type_name(instance: Instance) -> str:
    """The catalogue's name of the VM's type, which its machine type and its accelerators decide."""
    gpus = {
        last(accelerator.accelerator_type): accelerator.accelerator_count for accelerator in instance.guest_accelerators
    }
    return catalogue.load().name_of(last(instance.machine_type), gpus)


def _state(instance: Instance) -> VmState:
    """A VM in a state that is not known here counts as neither running nor lost: the listing goes on for the others."""
    if not instance.status:
        raise OutcomeUnknown(f"the VM {instance.name!r} has no state", code="MalformedAnswer")
    if instance.status not in STATES:
        log.warning("unknown VM state", instance_id=str(instance.id), state=instance.status)
    return STATES.get(instance.status, VmState.PENDING)


def time_of(text: str) -> datetime | None:
    """A time of Google's, in UTC; "" is none."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
