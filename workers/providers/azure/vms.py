"""Azure's virtual machines as the interface's VMs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.domain.leases import VmState
from app.domain.offerings import Market
from workers.providers.azure import names, places, resource_tags
from workers.providers.azure.calls import Document, part
from workers.providers.azure.errors import INTERNAL_FAILURES, kind_of
from workers.providers.errors import Refused
from workers.providers.types import Vm

POWER: Mapping[str, VmState] = {
    "starting": VmState.PENDING,
    # a restart passes through it: only what has stopped is lost
    "stopping": VmState.PENDING,
    "running": VmState.RUNNING,
    "stopped": VmState.STOPPED,
    "deallocating": VmState.ENDING,
    "deallocated": VmState.STOPPED,
}
"""Codes `PowerState/…` of the instance view. "stopped" still bills the whole VM, "deallocated" its disk."""

DEALLOCATE = "Deallocate"
"""The eviction policy of spot VMs. gpulease deletes VMs and never deallocates one: a deallocated one was evicted."""

_EVICTING = frozenset({"deallocating", "deallocated"})
_LIVE = frozenset({VmState.PENDING, VmState.RUNNING})
_POWER = "PowerState/"
_DELETING = "Deleting"
_CHANGING = frozenset({"Creating", "Updating"})
_EVICTED = frozenset({VmState.ENDING, VmState.STOPPED})
_FAILED = "ProvisioningState/failed"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Of one network interface, where it has them."""

    public: str | None = None
    private: str | None = None


def from_document(vm: Document, view: Document | None, addresses: Addresses | None = None) -> Vm:
    """`vm`: as get, list and create answer it. `view`: its instance view; None right after its creation."""
    properties = part(vm, "properties")
    region = part(vm, "location").lower()
    statuses = (view or {}).get("statuses") or ()
    power, failure = _with_prefix(statuses, _POWER), _with_prefix(statuses, _FAILED)
    provisioning = part(properties, "provisioningState")
    refusal = _refusal(failure)
    state = _state(provisioning, power, refusal)
    live = state in _LIVE
    reported = addresses if addresses is not None and live else Addresses()
    tags = resource_tags.read(vm.get("tags"))
    return Vm(
        id=names.join(part(vm, "name"), part(properties, "vmId")),
        region=region,
        zone=places.zone(region, vm.get("zones")),
        instance_type=part(properties, "hardwareProfile", "vmSize"),
        market=_market(properties),
        state=state,
        tags=tags,
        launch_identity=part(vm, "name").lower(),
        launched_at=_time(properties.get("timeCreated")),
        ended_at=None if live else _time((power or failure or {}).get("time")),
        public_ip=reported.public,
        private_ip=reported.private,
        state_reason=_reason(power, failure, refusal) if state is VmState.STOPPED else None,
        interrupted=state in _EVICTED
        and provisioning != _DELETING
        and refusal is None
        and _is_evicted(properties, power),
        refusal=refusal if state is VmState.STOPPED else None,
    )


def _market(properties: Document) -> Market:
    if properties.get("priority") == "Spot":
        return Market.SPOT
    return Market.RESERVED if properties.get("capacityReservation") else Market.ON_DEMAND


def _state(provisioning: str, power: Document | None, refusal: type[Refused] | None) -> VmState:
    """Where Azure does not know the power state, a VM counts as neither running nor lost.

    A VM that Azure creates or changes may show for a moment that it is stopped (Azure docs, "States and billing of
    Azure VMs"). It counts as pending until the operation is over. A VM whose launch was refused stays until it is
    deleted, with its disk, interface and address: it counts as stopped. One that failed otherwise may well run.
    """
    if provisioning == _DELETING:
        return VmState.ENDING
    known = POWER.get(power["code"].removeprefix(_POWER)) if power is not None else None
    if known is None:
        return VmState.STOPPED if provisioning == "Failed" and refusal is not None else VmState.PENDING
    return VmState.PENDING if known is VmState.STOPPED and provisioning in _CHANGING else known


def _is_evicted(properties: Document, power: Document | None) -> bool:
    """Whether Azure evicts a spot VM. A VM with the policy Delete disappears without a trace instead."""
    spot = properties.get("priority") == "Spot" and properties.get("evictionPolicy") == DEALLOCATE
    return spot and power is not None and power["code"].removeprefix(_POWER) in _EVICTING


def _reason(
    power: Document | None, failure: Document | None, refusal: type[Refused] | None
) -> dict[str, str | None] | None:
    """What Azure says of a VM that has stopped or never ran; nothing of one that is being deleted.

    The code of a refused launch says more than the power state that Azure shows beside it.
    """
    status = failure if refusal is not None else power or failure
    if status is None:
        return None
    return {"code": _failure_code(status), "message": status.get("message") or status.get("displayStatus")}


def _refusal(failure: Document | None) -> type[Refused] | None:
    """What the failure of an accepted launch means, when it is a definite no."""
    if failure is None:
        return None
    code = _failure_code(failure)
    if code in INTERNAL_FAILURES:
        return Refused
    kind = kind_of(code, failure.get("message") or "")
    return kind if issubclass(kind, Refused) else None


def _failure_code(status: Document) -> str:
    """`AllocationFailed` of `ProvisioningState/failed/AllocationFailed`; other codes as they are."""
    code: str = status["code"]
    return code.removeprefix(f"{_FAILED}/")


def _with_prefix(statuses: Iterable[Document], prefix: str) -> Document | None:
    return next((status for status in statuses if status.get("code", "").startswith(prefix)), None)


def _time(text: Any) -> datetime | None:
    """Azure writes up to seven digits of a second; Python reads six."""
    if text is None:
        return None
    whole, _, fraction = str(text).rstrip("Z").partition("+")[0].partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}").replace(tzinfo=UTC)


def agent_is_ready(view: Document) -> bool:
    """Whether the agent in the VM reports itself ready: cloud-init has then set the VM up."""
    statuses = (view.get("vmAgent") or {}).get("statuses") or ()
    return any(
        status.get("code") == "ProvisioningState/succeeded" and status.get("displayStatus") == "Ready"
        for status in statuses
    )
