"""Compute Engine instances as the interface's VMs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from app.domain.leases import VmState
from app.domain.offerings import Market
from workers.providers.base import OutcomeUnknown, Vm
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import Instance

STATES: Mapping[str, VmState] = {
    "PENDING": VmState.PENDING,
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
"""Instance lifecycle, Compute Engine guide. TERMINATED means stopped: its disks are still billed."""

_LIVE = frozenset({VmState.PENDING, VmState.RUNNING})
_TOKEN = re.compile(r"gpulease ([0-9a-f]{64})")


def described(token: str) -> str:
    """What a VM's description holds: the launch token, which is longer than a label may be."""
    return f"gpulease {token}"


def token_in(description: str) -> str | None:
    """The launch token of a description of ours."""
    match = _TOKEN.fullmatch(description)
    return match[1] if match else None


def from_instance(instance: Instance, region: str) -> Vm:
    """One record of a list. `ended_at` and reason only once it is ending or stopped."""
    state = STATES.get(instance.status)
    if state is None:
        raise OutcomeUnknown(f"a VM is in a state that is not known: {instance.status!r}", code="MalformedAnswer")
    zone = last(instance.zone)
    nics = instance.network_interfaces
    addresses = [config.nat_i_p for nic in nics for config in nic.access_configs if config.nat_i_p]
    return Vm(
        id=str(Id(zone, instance.name, str(instance.id))),
        region=region,
        zone=zone,
        instance_type=last(instance.machine_type),
        market=Market.SPOT if instance.scheduling.provisioning_model == "SPOT" else Market.ON_DEMAND,
        state=state,
        tags=dict(instance.labels),
        token=token_in(instance.description),
        launched_at=time_of(instance.creation_timestamp),
        ended_at=time_of(instance.last_stop_timestamp) if state is VmState.STOPPED else None,
        public_ip=addresses[0] if addresses else None,
        private_ip=nics[0].network_i_p or None if nics else None,
        state_reason=None if state in _LIVE else {"code": instance.status, "message": instance.status_message or None},
    )


def time_of(text: str) -> datetime | None:
    """A time of Google's, in UTC; "" is none."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
