"""What a front asks the world to make. Ids come from the front because their shape is the cloud's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cloudsim.world.entities import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOrder:
    """A disk made with a VM."""

    id: str
    tags: Mapping[str, str]
    delete_with_vm: bool
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicOrder:
    """A network interface made with a VM."""

    id: str
    tags: Mapping[str, str]
    delete_with_vm: bool
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One VM wanted in the first of `zones` that has capacity."""

    provider: str
    account: str
    region: str
    zones: tuple[str, ...]
    id: str
    name: str
    instance_type: str
    market: Market
    image: str
    tags: Mapping[str, str]
    token: str | None
    token_scope: str
    """Region or zone within which the token is unique."""
    params_hash: str
    public_ip: bool
    disks: tuple[DiskOrder, ...]
    nics: tuple[NicOrder, ...]
    spec: Mapping[str, Any]
    spec_by_zone: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Added to `spec` once the zone is known (a subnet, for example)."""
    failure_stays: bool = False
    """See `Vm.failure_stays`."""
    reclaim_stays: bool = False
    """See `Vm.reclaim_stays`."""
    reservation: str | None = None
    """Key of the reservation to run in."""
    placement_group: str | None = None
    """Key of the group whose VMs are close together."""
    slot: int = 0
    """Which of the VMs of one launch this is."""
    longest_queue: float | None = None
    """Seconds for which the launch may wait in its cloud's queue; None: it does not wait."""

    @property
    def token_key(self) -> str | None:
        """The token within its scope; each further VM of a launch has a key of its own."""
        if self.token is None:
            return None
        key = f"{self.provider}/{self.account}/{self.token_scope}/{self.token}"
        return f"{key}#{self.slot}" if self.slot else key


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantOrder:
    """A running, ready VM put there by somebody else: no quota, no capacity, no lag."""

    order: Order
    launched_at: float
