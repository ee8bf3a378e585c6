"""What a provider sells where: immutable facts a world is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from cloudsim.world.entities import Market


@dataclass(frozen=True, slots=True)
class Gpu:
    """The accelerators of one machine; memory is per GPU."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class MachineType:
    """One instance type. `quota_codes` names the quota that each market counts against.

    `quota_amount`: how much of it one VM takes; None: its vCPUs. `sold_as`: the markets that sell it.
    """

    name: str
    vcpus: int
    memory_mib: int
    gpu: Gpu
    quota_codes: Mapping[Market, str]
    quota_amount: int | None = None
    sold_as: tuple[Market, ...] = (Market.ON_DEMAND, Market.SPOT)

    @property
    def counted(self) -> int:
        """What one VM takes of its quota."""
        return self.vcpus if self.quota_amount is None else self.quota_amount


@dataclass(frozen=True, slots=True)
class Offer:
    """Prices in USD per hour of one machine type in one zone."""

    on_demand: Decimal
    spot: Decimal


@dataclass(frozen=True, slots=True)
class Catalog:
    """One provider. `offers` has a price for every pair; `offered` says which pairs are sold."""

    provider: str
    regions: Mapping[str, tuple[str, ...]]
    machines: Mapping[str, MachineType]
    offers: Mapping[tuple[str, str], Offer]
    offered: frozenset[tuple[str, str]]

    def region_of(self, zone: str) -> str | None:
        """The region that `zone` belongs to, None when there is no such zone."""
        return next((region for region, zones in self.regions.items() if zone in zones), None)

    @property
    def zones(self) -> tuple[str, ...]:
        """All zones of all regions."""
        return tuple(zone for zones in self.regions.values() for zone in zones)
