"""Things that exist in the simulated clouds and can change. Times are seconds since the epoch, UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cloudsim.world.gpus import HEALTHY, GpuCondition

RECLAIMED = "reclaimed"
"""The end code of a spot VM that its cloud has interrupted."""


class Market(StrEnum):
    """How a VM is bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class VmState(StrEnum):
    """Life of a VM; fronts translate into their cloud's words."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"
    DEALLOCATED = "deallocated"
    """Interrupted, but there until somebody ends it (clouds whose reclaimed VMs may stay)."""
    FAILED = "failed"
    """Accepted and never started, but there until somebody ends it (clouds whose failed VMs stay)."""


class ResourceKind(StrEnum):
    """What costs money or gets in the way beside VMs."""

    VOLUME = "volume"
    NETWORK_INTERFACE = "network_interface"
    ADDRESS = "address"
    SECURITY_GROUP = "security_group"
    PLACEMENT_GROUP = "placement_group"
    AVAILABILITY_SET = "availability_set"
    APPLICATION_SECURITY_GROUP = "application_security_group"


@dataclass(slots=True, kw_only=True)
class Vm:
    """One virtual machine, from launch until forgotten. `seq` orders all VMs of a world by launch."""

    seq: int
    provider: str
    account: str
    region: str
    zone: str
    id: str
    name: str
    instance_type: str
    market: Market
    image: str
    state: VmState
    tags: dict[str, str]
    token: str | None
    token_key: str | None
    """Token with its scope; the world's idempotency key."""
    params_hash: str
    launched_at: float
    visible_at: float
    running_at: float
    ready_at: float | None
    """When status checks pass; None: never."""
    boot_failure: str | None = None
    """Reason code with which the VM dies instead of running."""
    failure_stays: bool = False
    """It then stays as `failed`, with all that was made with it."""
    reclaim_stays: bool = False
    """When its cloud interrupts it, it stays as `deallocated`, with all that was made with it."""
    notice_at: float | None = None
    reclaim_at: float | None = None
    reclaim_cause: str = ""
    ending_at: float | None = None
    ended_at: float | None = None
    end_code: str = ""
    """Why it ended: `user`, `instance`, `reclaimed`, or a boot failure's code."""
    cleaned: bool = False
    pool_epoch: int | None = None
    """Capacity setting the VM took its place from; None: none taken."""
    reservation: str | None = None
    """Key of the reservation that the VM runs in."""
    placement_group: str | None = None
    """Key of the group whose VMs are close together."""
    queued_until: float | None = None
    """It waits in its cloud's queue for capacity until then."""
    resources: list[str] = field(default_factory=list)
    private_ip: str = ""
    public_ip: str | None = None
    gpus: GpuCondition = HEALTHY
    booted_at: float | None = None
    """When it was rebooted last; None: never."""
    console: tuple[str, ...] = ()
    """Lines that a program in the VM has printed on the serial console."""
    spec: dict[str, Any] = field(default_factory=dict)
    """What only the VM's own front understands; JSON values."""
    revision: int = 0
    """Grows with every change: caches of rendered VMs compare it."""

    @property
    def alive(self) -> bool:
        """It exists and bills, whatever it shows."""
        return self.state is not VmState.TERMINATED

    @property
    def is_deallocating(self) -> bool:
        """Being interrupted, and nobody has requested its end."""
        return self.reclaim_stays and self.state is VmState.SHUTTING_DOWN and self.end_code == RECLAIMED

    @property
    def printed(self) -> str:
        """What programs in the VM have printed on its serial console."""
        return "".join(f"{line}\r\n" for line in self.console)

    def is_ready(self, now: float) -> bool:
        """Running and through its status checks."""
        return self.state is VmState.RUNNING and self.ready_at is not None and now >= self.ready_at


@dataclass(slots=True, kw_only=True)
class Resource:
    """A disk, network interface, address, firewall group or placement group."""

    kind: ResourceKind
    provider: str
    account: str
    region: str
    zone: str
    id: str
    tags: dict[str, str]
    created_at: float
    vm_id: str | None = None
    delete_with_vm: bool = False
    spec: dict[str, Any] = field(default_factory=dict)
