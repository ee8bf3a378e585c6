"""Offerings: an offering is one instance type, in one zone of one account, in one market.

In the market `reserved`, each reservation is an offering of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from app.domain.gpus.benchmarks import MeasuredPerformance
from app.domain.reservations import Reservation
from app.domain.vm_parts import PartsFacts


class Market(StrEnum):
    """How a VM is bought. `spot` is cheaper, and the provider may interrupt it. `reserved` was bought ahead."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"


LISTED_MARKETS = (Market.ON_DEMAND, Market.SPOT)
"""The markets in which a provider's own price list sells. Reservations are configured by the operator."""


class MarketPreference(StrEnum):
    """The market that a tenant requests: one market, one market first and on demand after that, or `any` by price."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SPOT_FIRST = "spot_first"
    RESERVED = "reserved"
    RESERVED_FIRST = "reserved_first"
    ANY = "any"


class PriceStatus(StrEnum):
    """How reliable a price is. The list may grow.

    `live`: the provider reported the price recently. `stale`: the provider reported the price, but has not confirmed it
    since. `listed`: the price comes from the list shipped with the program; `price_as_of` is its date. `missing`: no
    price is known, so nothing is launched there.
    """

    LIVE = "live"
    LISTED = "listed"
    STALE = "stale"
    MISSING = "missing"


class GpuVendor(StrEnum):
    """The manufacturer of a GPU. The list may grow."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"


class Driver(StrEnum):
    """The driver that an image needs for a GPU.

    `nvidia`: NVIDIA's driver for data centres. `nvidia_grid`: NVIDIA's vGPU guest driver, which a part of a GPU and
    some graphics types need instead. `amd_rocm`: AMD's driver with ROCm.
    """

    NVIDIA = "nvidia"
    NVIDIA_GRID = "nvidia_grid"
    AMD_ROCM = "amd_rocm"


class Interconnect(StrEnum):
    """How the GPUs of one VM are connected. The list may grow.

    `NVLink`: directly, in pairs or a mesh. `NVSwitch`: all GPUs over NVLink switches. `Infinity Fabric`: AMD's links.
    `PCIe`: only over the host; also a VM with a single GPU.
    """

    PCIE = "PCIe"
    NVLINK = "NVLink"
    NVSWITCH = "NVSwitch"
    INFINITY_FABRIC = "Infinity Fabric"

    def serves(self, requested: "Interconnect") -> bool:
        """Whether a VM with this interconnect serves a request. NVSwitch is NVLink between all GPUs, so it serves both."""
        return self is requested or (requested is Interconnect.NVLINK and self is Interconnect.NVSWITCH)


class NetworkFabric(StrEnum):
    """What the network of a type offers between VMs besides Ethernet. The list may grow.

    `EFA`: Elastic Fabric Adapter (AWS). `RDMA`: InfiniBand or RoCE adapters. `GPUDirect`: GPUDirect-TCPX or -TCPXO.
    """

    EFA = "EFA"
    RDMA = "RDMA"
    GPUDIRECT = "GPUDirect"


class Obstacle(StrEnum):
    """Why an account cannot buy an offering that its provider has. Such an offering is known, but never launched.

    `reserved_only`: the provider sells this type on demand only as capacity that is reserved beforehand.
    `no_driver_image`: the type needs a driver for which the account names no image.
    """

    RESERVED_ONLY = "reserved_only"
    NO_DRIVER_IMAGE = "no_driver_image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """`count` GPUs of `memory_gib` GiB each.

    `nvlink`: the NVLink generation, where the GPUs are connected by NVLink. `parts`: the provider divides each GPU into
    so many equal parts, and `count` and `memory_gib` are those of the part that the VM gets; 1: whole GPUs.
    """

    model: str
    count: int
    memory_gib: int
    interconnect: Interconnect
    nvlink: int | None = None
    driver: Driver = Driver.NVIDIA
    parts: int = 1

    @property
    def vendor(self) -> GpuVendor:
        """The manufacturer, which follows from the driver."""
        return GpuVendor.AMD if self.driver is Driver.AMD_ROCM else GpuVendor.NVIDIA

    @property
    def fraction(self) -> float:
        """The share of one GPU that each of `count` is: 1.0 for whole GPUs."""
        return round(1 / self.parts, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Facts of an instance type, the same in every region.

    `local_disk_gib`: local NVMe or SSD that comes with the VM and is lost with it, in GiB. `network_gbps`: highest
    bandwidth of the VM's network in Gbit/s, with the fabric; None: unknown.
    """

    name: str
    gpu: Gpu
    vcpus: int
    memory_gib: Decimal
    local_disk_gib: int = 0
    network_gbps: Decimal | None = None
    network_fabric: NetworkFabric | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingKey:
    """Identity of an offering. Accounts have unique names, so the account implies the provider.

    `reservation`: its name in the account's settings, in the market `reserved` alone.
    """

    account: str
    region: str
    zone: str
    instance_type: str
    market: Market
    reservation: str | None = None


MOST_CORDONS = 100
"""In one region. Each read of the catalogue compares each offering with all cordons of its region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingSelector:
    """The offerings of a region that have each value that is set. An operator's cordon names them so."""

    account: str
    region: str
    zone: str | None = None
    instance_type: str | None = None
    market: Market | None = None

    def as_json(self) -> dict[str, str | None]:
        """The part of a member of the region's column `cordons` that names the offerings."""
        market = None if self.market is None else str(self.market)
        return {"zone": self.zone, "instance_type": self.instance_type, "market": market}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolOff:
    """The cool-off of an offering that refused: not preferred before `until`. `code`: the provider's error code."""

    until: datetime
    reason: str
    code: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """What VMs of one tenant alone show of an offering: it is in cool-off for this tenant."""

    tenant_id: str
    cool_off: CoolOff

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """From the column `suspicion`."""
        until = datetime.fromisoformat(stored["until"])
        cool_off = CoolOff(until=until, reason=stored["reason"], code=stored["code"], count=0)
        return cls(tenant_id=stored["tenant_id"], cool_off=cool_off)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """One line of the catalogue with its current price and statistics. `price_per_hour` is USD for compute: `rate_at` adds the other parts.

    `images`: names of the images that the account has besides its default image. `launches` and `refusals` count
    recent ones: old ones are dropped. `ready_seconds`: average time from launch to ready. `obstacle`: why the account
    cannot buy it at all. `disk_price_per_gib_month`: USD for the kind of network disk that gpulease attaches.
    `address_price_per_hour`: USD for a public IPv4 address. `benchmark`: of its GPUs. None: unknown. `parts`: what the
    account gives its VMs besides compute.
    """

    key: OfferingKey
    provider: str
    type: InstanceType
    price_per_hour: Decimal | None
    price_as_of: datetime | None
    price_source: str | None
    price_live: bool = False
    images: frozenset[str] = frozenset()
    cool_off: CoolOff | None = None
    suspicion: Suspicion | None = None
    launches: int = 0
    refusals: int = 0
    ready_seconds: float | None = None
    cordoned: bool = False
    account_problem: str | None = None
    disk_price_per_gib_month: Decimal | None = None
    address_price_per_hour: Decimal | None = None
    parts: PartsFacts = PartsFacts()  # noqa: RUF009 - it is frozen
    obstacle: Obstacle | None = None
    reservation: Reservation | None = None
    benchmark: MeasuredPerformance | None = None

    def price_status(self, now: datetime, stale_after: timedelta) -> PriceStatus:
        """A live price goes stale at an age of `stale_after`. A listed price has a date, but never goes stale."""
        if self.price_per_hour is None:
            return PriceStatus.MISSING
        if not self.price_live:
            return PriceStatus.LISTED
        fresh = self.price_as_of is not None and now - self.price_as_of < stale_after
        return PriceStatus.LIVE if fresh else PriceStatus.STALE

    @property
    def success_rate(self) -> float | None:
        """The share of recent launches that created a VM. None while there were none."""
        tries = self.launches + self.refusals
        return self.launches / tries if tries else None

    def as_seen_by(self, tenant_id: str, now: datetime) -> "Offering":
        """The offering with the cool-off that concerns this tenant alone, where it has no other one."""
        own = self.suspicion
        if own is None or own.tenant_id != tenant_id or own.cool_off.until <= now or self.cooling(now):
            return self
        return replace(self, cool_off=own.cool_off)

    def cooling(self, now: datetime) -> bool:
        """Whether the offering is in cool-off at `now`."""
        return self.cool_off is not None and self.cool_off.until > now
