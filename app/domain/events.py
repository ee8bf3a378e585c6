"""Events: the data that each type carries; `group_events` has those of groups. Webhooks and the event stream carry the same.

The API's schema of events is made from these classes. Two lists may grow: the types, and the fields of a type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.budgets import BudgetKind, Period
from app.domain.event_parts import EventData, EventError, EventFinding, EventOffering, EventReason, described
from app.domain.event_types import EventType
from app.domain.gpus.findings import HealthStatus, ProofChannel, ProofStatus
from app.domain.groups.events import GROUP_EVENT_DATA
from app.domain.quotas import JsonAmount


def _number() -> Any:
    return described("The attempt's number within the lease.")


def _instance() -> Any:
    return described("The provider's id of the VM.")


def _error() -> Any:
    return described("What went wrong. Null: nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseQueued(EventData):
    """The lease was created, or returns to the queue."""

    type = EventType.LEASE_QUEUED
    name: str | None = described("The lease's name, when the lease was created.")
    reason: EventReason | None = described("Why the lease returns to the queue. Null: the lease was created.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseProvisioning(EventData):
    """The first attempt of a pass over the offerings is planned."""

    type = EventType.LEASE_PROVISIONING
    n: int = _number()
    offering: EventOffering


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBooting(EventData):
    """The provider reports the VM as running."""

    type = EventType.LEASE_BOOTING
    n: int = _number()
    instance_id: str | None = _instance()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseActive(EventData):
    """The VM is ready."""

    type = EventType.LEASE_ACTIVE
    n: int = _number()
    instance_id: str | None = _instance()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleasing(EventData):
    """The lease starts to end."""

    type = EventType.LEASE_RELEASING
    reason: EventReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleaseBlocked(EventData):
    """The provider does not end the VM or does not delete a leftover resource."""

    type = EventType.LEASE_RELEASE_BLOCKED
    obstacle: str = described("What keeps the lease from ending.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased(EventData):
    """The lease has ended."""

    type = EventType.LEASE_RELEASED
    reason: EventReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFailed(EventData):
    """The lease has ended without having been active."""

    type = EventType.LEASE_FAILED
    reason: EventReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseUpdated(EventData):
    """The name, the labels, the spend cap or the warnings before the end changed."""

    type = EventType.LEASE_UPDATED
    name: str | None = described("The new name. Null: unchanged.")
    labels: Mapping[str, str] | None = described("All labels. Null: unchanged.")
    max_cost: str | None = described("The new spend cap in USD. Null: unchanged or removed.")
    expiry_warnings_seconds: tuple[int, ...] | None = described(
        "The new warnings before the end, in seconds. Null: unchanged, or as the installation is configured."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExtended(EventData):
    """The lease was extended. Also sent when a restored database had lost the extension."""

    type = EventType.LEASE_EXTENDED
    expires_at: datetime = described("The new expiry.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpiringSoon(EventData):
    """The lease ends soon. Sent once for each warning before each end."""

    type = EventType.LEASE_EXPIRING_SOON
    expires_at: datetime = described("The lease's expiry.")
    ends_at: datetime = described("When the lease ends: its expiry, or earlier when its maximum cost is reached.")
    seconds: int = described("The warning: how many seconds before the end it is due.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCapNear(EventData):
    """The lease has cost 80 % of its spend cap. Sent once for each cap."""

    type = EventType.LEASE_CAP_NEAR
    max_cost: str = described("The spend cap in USD.")
    accrued: str = described("What the lease has cost, in USD.")
    ends_at: datetime = described("When the lease ends at the present rate.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePriceChanged(EventData):
    """The provider changed the price of the running VM."""

    type = EventType.LEASE_PRICE_CHANGED
    n: int = _number()
    price_per_hour: str = described("The new price in USD, with disks and the address.")
    previous_price_per_hour: str = described("The price until now in USD, with disks and the address.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHostKeys(EventData):
    """The VM reported its SSH host keys."""

    type = EventType.LEASE_HOST_KEYS
    n: int = _number()
    keys: tuple[str, ...] = described("Public host keys in OpenSSH form.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRebooting(EventData):
    """A user requested a reboot."""

    type = EventType.LEASE_REBOOTING


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRebooted(EventData):
    """The reboot was sent to the provider."""

    type = EventType.LEASE_REBOOTED
    n: int = _number()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRebootFailed(EventData):
    """The provider rejected the reboot, or was unreachable for five minutes."""

    type = EventType.LEASE_REBOOT_FAILED
    n: int = _number()
    error: EventError | None = _error()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseInterruptionNotice(EventData):
    """The provider announced an interruption."""

    type = EventType.LEASE_INTERRUPTION_NOTICE
    notice_at: datetime = described("When the provider announced it.")
    deadline_at: datetime | None = described("When the provider ends the VM. Null: not announced.")
    action: str | None = described("What the provider does with the VM.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAdopted(EventData):
    """The lease was rebuilt from the tags of its VM after a restore."""

    type = EventType.LEASE_ADOPTED
    n: int = _number()
    instance_id: str | None = _instance()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseProof(EventData):
    """The VM proved its GPUs before the tenant's script ran, or failed to."""

    type = EventType.LEASE_PROOF
    n: int = _number()
    status: ProofStatus = described("The outcome.")
    via: ProofChannel | None = described("How the proof arrived. Null: none arrived.")
    findings: tuple[EventFinding, ...] = described("What was found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGpuHealth(EventData):
    """The health of the GPUs changed, as the agent in the VM reports it."""

    type = EventType.LEASE_GPU_HEALTH
    n: int = _number()
    status: HealthStatus = described("The new health.")
    findings: tuple[EventFinding, ...] = described("What was found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseIdleSoon(EventData):
    """All GPUs of the lease are idle, and the lease soon counts as idle."""

    type = EventType.LEASE_IDLE_SOON
    idle_since: datetime = described("The first of the idle samples in a row.")
    ends_at: datetime | None = described("When the lease ends if its GPUs stay idle. Null: it does not end for that.")
    seconds: int = described("The warning: how many seconds before that time it is due.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseIdle(EventData):
    """All GPUs of the lease were idle for as long as its rule allows."""

    type = EventType.LEASE_IDLE
    idle_since: datetime = described("The first of the idle samples in a row.")
    samples: int = described("The number of idle samples in a row.")
    gpu_hours: str = described("Idle GPU-hours, as a decimal number.")
    cost: str = described("What the idle time cost, in USD.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKept(EventData):
    """A user holds idleness off."""

    type = EventType.LEASE_KEPT
    keep_until: datetime = described("The lease does not count as idle before.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseBenchmark(EventData):
    """The VM measured its GPUs."""

    type = EventType.LEASE_BENCHMARK
    n: int = _number()
    gpus: int = described("The number of GPUs measured.")
    bf16_tflops: float | None = described("Of the slowest GPU. Null: not measured.")
    fp16_tflops: float | None = described("Of the slowest GPU. Null: not measured.")
    fp32_tflops: float | None = described("Of the slowest GPU. Null: not measured.")
    memory_gbps: float | None = described("GB/s of GPU memory, of the slowest GPU. Null: not measured.")
    allreduce_gbps: float | None = described("GB/s between the GPUs. Null: not measured.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptGpuCheckFailed(EventData):
    """The GPUs of the VM failed their check. The VM is ended, and the lease gets another one."""

    type = EventType.ATTEMPT_GPU_CHECK_FAILED
    n: int = _number()
    instance_id: str | None = _instance()
    offering: EventOffering
    findings: tuple[EventFinding, ...] = described("What was found.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlanned(EventData):
    """Another attempt of the same pass over the offerings is planned."""

    type = EventType.ATTEMPT_PLANNED
    n: int = _number()
    offering: EventOffering


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunched(EventData):
    """The provider's id of the VM is known."""

    type = EventType.ATTEMPT_LAUNCHED
    n: int = _number()
    instance_id: str | None = _instance()
    offering: EventOffering


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSettling(EventData):
    """The outcome of the create call is unknown: gpulease now only searches for the VM."""

    type = EventType.ATTEMPT_SETTLING
    n: int = _number()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRefused(EventData):
    """The VM was certainly not created, or the provider accepted the call and then created no VM."""

    type = EventType.ATTEMPT_REFUSED
    n: int = _number()
    instance_id: str | None = _instance()
    offering: EventOffering
    error: EventError | None = _error()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDead(EventData):
    """The deletion of the VM is confirmed, or it is confirmed that no VM was created."""

    type = EventType.ATTEMPT_DEAD
    n: int = _number()
    instance_id: str | None = _instance()
    offering: EventOffering
    error: EventError | None = _error()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNearlyUsed(EventData):
    """Use reaches 90 % of a limit. Sent again only after use fell below 80 %."""

    type = EventType.QUOTA_NEARLY_USED
    resource: str = described("The name of the quota.")
    limit: JsonAmount = described("The limit: a number, or USD as a decimal string for `spend_per_hour`.")
    used: JsonAmount = described("The amount in use, in the same form.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetThreshold(EventData):
    """What is spent reaches a threshold of a budget.

    Sent once for each threshold and period, unless a change of the amount lets the threshold be reached again.
    """

    type = EventType.BUDGET_THRESHOLD
    budget_id: str = described("The budget's id.")
    kind: BudgetKind = described("Whose leases the budget counts.")
    key_id: str | None = described("The API key that created the leases. Null: any.")
    label: str | None = described("A label of the leases, as `key:value`. Null: any.")
    period: Period = described("The period of the budget.")
    threshold: int = described("Percent of the amount.")
    amount: str = described("USD for one period.")
    spent: str = described("USD that leases have cost in the period.")
    committed: str = described("USD that live leases may still cost in the period.")
    resets_at: datetime | None = described("When the next period begins. Null: never.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanEnded(EventData):
    """A VM that outlived its lease was deleted."""

    type = EventType.ORPHAN_ENDED
    orphan_id: str = described("The orphan's id.")
    lease_id: str = described("The lease that the VM belonged to.")
    instance_id: str = _instance()
    region: str = described("The region.")
    zone: str = described("The zone.")
    cause: str = described("Why the VM belonged to no lease any more.")
    first_seen_at: datetime = described("When gpulease first saw the VM without a lease.")
    ended_by_us: bool = described("Whether gpulease ended the VM.")


EVENT_DATA: Mapping[EventType, type[EventData]] = {
    data_class.type: data_class for data_class in (*EventData.__subclasses__(), *GROUP_EVENT_DATA)
}
"""The data of each type."""
