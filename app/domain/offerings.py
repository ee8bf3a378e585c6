"""What can be leased: an offering is one instance type, in one zone of one account, in one market."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum


class Market(StrEnum):
    """How a VM is bought. `spot` is cheaper and can be taken back by the provider."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class MarketWish(StrEnum):
    """What a tenant may ask for: a market, or spot everywhere first and on demand after that."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SPOT_FIRST = "spot_first"


class PriceStatus(StrEnum):
    """How far a price can be believed. The list may grow.

    `live`: the provider told it lately. `stale`: it told it, and could not be asked since. `listed`: one of the list that
    came with the program, as old as `price_as_of` says. `missing`: no price is known, so nothing is launched there.
    """

    LIVE = "live"
    LISTED = "listed"
    STALE = "stale"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """`count` GPUs of `memory_gib` GiB each; `interconnect` is NVSwitch, NVLink or PCIe."""

    model: str
    count: int
    memory_gib: int
    interconnect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Facts of an instance type, the same in every region."""

    name: str
    gpu: Gpu
    vcpus: int
    memory_gib: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingKey:
    """Identity of an offering. Accounts have unique names, so the account implies the provider."""

    account: str
    region: str
    zone: str
    instance_type: str
    market: Market


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolOff:
    """An offering that refused: not preferred before `until`. `code` is the provider's own word."""

    until: datetime
    reason: str
    code: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """One line of the catalogue with what is known of it now. `price_per_hour` is USD for the whole VM.

    `images`: names of the images that its account has besides its default one.
    `launches` and `refusals` are counts of late: old ones are forgotten. `ready_seconds`: average from launch to ready.
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
    launches: int = 0
    refusals: int = 0
    ready_seconds: float | None = None
    cordoned: bool = False
    account_problem: str | None = None

    def price_status(self, now: datetime, stale_after: timedelta) -> PriceStatus:
        """A live price goes stale at an age of `stale_after`; a listed one tells its date and no more."""
        if self.price_per_hour is None:
            return PriceStatus.MISSING
        if not self.price_live:
            return PriceStatus.LISTED
        fresh = self.price_as_of is not None and now - self.price_as_of < stale_after
        return PriceStatus.LIVE if fresh else PriceStatus.STALE

    @property
    def success_rate(self) -> float | None:
        """The share of launches of late that gave a VM; None while nothing was tried."""
        tries = self.launches + self.refusals
        return self.launches / tries if tries else None

    def cooling(self, now: datetime) -> bool:
        """Whether it refused lately and is set aside at `now`."""
        return self.cool_off is not None and self.cool_off.until > now
