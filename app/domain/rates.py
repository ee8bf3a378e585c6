"""What a VM costs an hour: compute, network disks and the public address. Nothing else adds these parts up.

Quotes, plans, admission, planning and billing use `rate_at`. `app.db.leases.billing` adds the stored parts in SQL.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from app.domain.money import format_money
from app.domain.offerings import Market, Offering
from app.domain.vm_parts import PartsFacts, PartsRequest

HOURS_PER_MONTH = Decimal(730)
"""The month in which providers state the price of storage: 8,760 hours a year divided by twelve."""
_STORED = Decimal("0.000001")


class Part(StrEnum):
    """What gpulease meters of a VM. Traffic is not metered."""

    COMPUTE = "compute"
    DISK = "disk"
    ADDRESS = "address"


class CostScope(StrEnum):
    """What an amount covers. The list may grow.

    `compute`: the VM with its GPUs and local disks. `compute_disk_address`: also its network disks and public address.
    """

    COMPUTE = Part.COMPUTE.value
    VM = "_".join(Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """USD an hour. `disk`: all network disks of the VM. `address`: its public address. None: the price is unknown."""

    compute: Decimal
    disk: Decimal | None = None
    address: Decimal | None = None

    @property
    def total(self) -> Decimal:
        """USD an hour for all parts. A part with an unknown price counts as zero."""
        return self.compute + (self.disk or Decimal(0)) + (self.address or Decimal(0))

    def times(self, vms: int) -> "Rate":
        """The rate of so many equal VMs."""
        disk, address = (None if part is None else part * vms for part in (self.disk, self.address))
        return Rate(compute=self.compute * vms, disk=disk, address=address)

    def as_json(self) -> dict[str, Any]:
        """`price_per_hour` and its `parts`, as every answer of the API shows a rate."""
        amounts = {Part.COMPUTE: self.compute, Part.DISK: self.disk, Part.ADDRESS: self.address}
        parts = {str(part): None if amount is None else format_money(amount) for part, amount in amounts.items()}
        return {"price_per_hour": format_money(self.total), "parts": parts}


def disk_gib_at(offering: Offering, parts: PartsRequest) -> int:
    """Billed GiB of all network disks of a VM at `offering`."""
    return offering.parts.billed_disk_gib(parts, offering.type.gpu.driver)


def rate_at(offering: Offering, parts: PartsRequest) -> Rate:
    """The rate of a VM at `offering`, to a millionth. Raises ValueError when the offering has no price."""
    if offering.price_per_hour is None:
        msg = "an offering without a price has no rate"
        raise ValueError(msg)
    per_month, address = offering.disk_price_per_gib_month, offering.address_price_per_hour
    disk = None if per_month is None else (per_month * disk_gib_at(offering, parts) / HOURS_PER_MONTH).quantize(_STORED)
    if not offering.parts.gives_address(parts):
        address = Decimal(0)
    return Rate(compute=offering.price_per_hour, disk=disk, address=address)


def volume_price(per_gib_month: Decimal, parts: PartsFacts, size_gib: int) -> Decimal:
    """USD an hour of a whole volume, to a millionth. `parts`: of its account."""
    return (per_gib_month * parts.billed_gib(size_gib) / HOURS_PER_MONTH).quantize(_STORED)


def price_at(offering: Offering, parts: PartsRequest) -> Decimal | None:
    """USD an hour of a VM at `offering`, all parts. None: the price of compute is unknown."""
    return None if offering.price_per_hour is None else rate_at(offering, parts).total


def list_price(offering: Offering, offerings: Iterable[Offering]) -> Decimal | None:
    """USD an hour of the same machine on demand, in the same zone or else in its region. None: unknown."""
    here = (offering.key.account, offering.key.region, offering.key.instance_type)
    prices = {
        other.key.zone: other.price_per_hour
        for other in offerings
        if other.key.market is Market.ON_DEMAND
        and (other.key.account, other.key.region, other.key.instance_type) == here
        and other.price_per_hour is not None
    }
    return prices.get(offering.key.zone, min(prices.values(), default=None))


def least_rate(candidates: Iterable[Offering], parts: PartsRequest) -> Decimal:
    """USD an hour of the cheapest candidate, all parts: what admission counts. Zero without a candidate."""
    rates = (rate_at(offering, parts).total for offering in candidates)
    return min(rates, default=Decimal(0))
