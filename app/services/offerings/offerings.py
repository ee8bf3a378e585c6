"""The catalogue for callers of the API: filtered, ordered, in pages."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from app.domain.gpus import models as gpu_models
from app.domain.lease_offerings import is_visible
from app.domain.offerings import GpuVendor, InstanceType, Interconnect, Market, Offering
from app.domain.placement import CORDONED_DETAIL
from app.domain.rates import price_at
from app.domain.reservations import passing_objection
from app.domain.vm_parts import DEFAULT_PARTS
from app.services.cursors import PageRequest, cursor
from app.services.errors import FieldError, InvalidRequest
from app.services.offering_cache import OfferingCache

_Key = tuple[bool, Decimal, str, str, str, str, str]


class OfferingSort(StrEnum):
    """Cheapest first: for the whole VM, or for one of its GPUs. Unknown prices come last.

    `price_performance`: the most measured TFLOP/s for a USD first, then what is not measured, by price.
    """

    PRICE = "price"
    PRICE_PER_GPU = "price_per_gpu"
    PRICE_PERFORMANCE = "price_performance"


class AvailabilityStatus(StrEnum):
    """Whether a launch would succeed. The list may grow.

    `available`: the last launch there did. `unknown`: not tried, or not since it refused. `cooling_off`: it refused a
    short while ago. `unavailable`: set aside, or without a price.
    """

    AVAILABLE = "available"
    COOLING_OFF = "cooling_off"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """`until` and `reason` are set during a cool-off. `reason` is also set for an unavailable offering."""

    status: AvailabilityStatus
    until: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingFilter:
    """An offering must match every field that is set. None means any."""

    gpu_model: str | None = None
    min_gpus: int | None = None
    min_gpu_memory_gib: int | None = None
    gpu_vendor: GpuVendor | None = None
    interconnect: Interconnect | None = None
    min_vcpus: int | None = None
    min_memory_gib: int | None = None
    min_local_disk_gib: int | None = None
    market: Market | None = None
    provider: str | None = None
    account: str | None = None
    region: str | None = None
    instance_type: str | None = None
    max_price_per_hour: Decimal | None = None

    def takes(self, offering: Offering) -> bool:
        """Whether `offering` matches."""
        return (
            self._takes_place(offering)
            and self._takes_gpu(offering)
            and self._takes_size(offering.type)
            and self._takes_price(offering)
        )

    def _takes_place(self, offering: Offering) -> bool:
        key = offering.key
        required = (self.market, self.provider, self.account, self.region, self.instance_type)
        actual = (key.market, offering.provider, key.account, key.region, key.instance_type)
        return all(value is None or value == have for value, have in zip(required, actual, strict=True))

    def _takes_gpu(self, offering: Offering) -> bool:
        gpu = offering.type.gpu
        return (
            (self.gpu_model is None or gpu.model == self.gpu_model)
            and (self.gpu_vendor is None or gpu.vendor is self.gpu_vendor)
            and (self.interconnect is None or gpu.interconnect.serves(self.interconnect))
            and gpu.count >= (self.min_gpus or 0)
            and gpu.memory_gib >= (self.min_gpu_memory_gib or 0)
        )

    def _takes_size(self, kind: InstanceType) -> bool:
        return (
            kind.vcpus >= (self.min_vcpus or 0)
            and kind.memory_gib >= (self.min_memory_gib or 0)
            and kind.local_disk_gib >= (self.min_local_disk_gib or 0)
        )

    def _takes_price(self, offering: Offering) -> bool:
        if self.max_price_per_hour is None:
            return True
        price = price_at(offering, DEFAULT_PARTS)
        return price is not None and price <= self.max_price_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingPage:
    """Lines of the catalogue as of `as_of`."""

    offerings: tuple[Offering, ...]
    as_of: datetime
    next_cursor: str | None
    total_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImage:
    """An image that leases may request. `places`: (provider, account) of each account that has it, in order."""

    name: str
    places: tuple[tuple[str, str], ...]


class OfferingService:
    """Reads the catalogue."""

    def __init__(self, catalogue: OfferingCache) -> None:
        self._catalogue = catalogue

    async def list(
        self, criteria: OfferingFilter, sort: OfferingSort, page: PageRequest, *, tenant_id: str | None
    ) -> OfferingPage:
        """One page of matching offerings that can be bought and that the tenant may use (None: all).

        Raises InvalidRequest for a cursor of another list.
        """
        snapshot = await self._catalogue.snapshot()
        criteria = _resolved(criteria, snapshot.names(tenant_id).gpu_models)
        after = _after(page, sort)
        matching = (
            o for o in snapshot.offerings if o.obstacle is None and criteria.takes(o) and is_visible(o, tenant_id)
        )
        keyed = sorted(((_sort_key(offering, sort), offering) for offering in matching), key=lambda entry: entry[0])
        rest = [(key, offering) for key, offering in keyed if after is None or key > after]
        page_rows = rest[: page.limit]
        more = _cursor(page_rows[-1][0], sort) if len(rest) > page.limit else None
        return OfferingPage(
            offerings=tuple(offering for _, offering in page_rows),
            as_of=snapshot.as_of,
            next_cursor=more,
            total_count=len(keyed) if page.count else None,
        )

    async def reservations(self, tenant_id: str | None) -> tuple[tuple[Offering, ...], datetime]:
        """The reservations that the tenant may use (None: all), by account and name, and the time of the read."""
        snapshot = await self._catalogue.snapshot()
        reserved = (o for o in snapshot.offerings if o.reservation is not None and is_visible(o, tenant_id))
        return tuple(sorted(reserved, key=lambda o: (o.key.account, o.key.reservation or ""))), snapshot.as_of

    async def images(self) -> tuple[NamedImage, ...]:
        """The images of accounts with offerings, sorted by name."""
        places: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for offering in (await self._catalogue.snapshot()).offerings:
            for name in offering.images:
                places[name].add((offering.provider, offering.key.account))
        return tuple(NamedImage(name=name, places=tuple(sorted(places[name]))) for name in sorted(places))


def _resolved(criteria: OfferingFilter, models: frozenset[str]) -> OfferingFilter:
    """The filter with the catalogue's name of the GPU model, and with the memory that its spelling names."""
    model = None if criteria.gpu_model is None else gpu_models.resolve(criteria.gpu_model, models)
    if model is None:
        return criteria
    memory = max(criteria.min_gpu_memory_gib or 0, model.memory_gib or 0) or None
    return replace(criteria, gpu_model=model.name, min_gpu_memory_gib=memory)


def availability(offering: Offering, now: datetime, *, operator: bool) -> Availability:
    """The availability of an offering at `now`. Only operators see the problem of a provider account."""
    problem = _problem(offering, now, operator=operator)
    if problem is not None:
        return Availability(status=AvailabilityStatus.UNAVAILABLE, reason=problem)
    cool = offering.cool_off
    if cool is None:
        known = offering.launches > 0
        return Availability(status=AvailabilityStatus.AVAILABLE if known else AvailabilityStatus.UNKNOWN)
    if cool.until > now:
        return Availability(status=AvailabilityStatus.COOLING_OFF, until=cool.until, reason=cool.reason)
    return Availability(status=AvailabilityStatus.UNKNOWN)


def _problem(offering: Offering, now: datetime, *, operator: bool) -> str | None:
    """Why nothing can be launched there at `now`, apart from a cool-off."""
    if offering.account_problem is not None:
        return offering.account_problem if operator else "the provider account is set aside at present"
    if offering.cordoned:
        return CORDONED_DETAIL
    if offering.price_per_hour is None:
        return "its price is not known at present"
    if offering.reservation is None:
        return None
    return offering.reservation.problem or passing_objection(offering.reservation, now)


def price_per_gpu(price: Decimal, kind: InstanceType) -> Decimal:
    """The price per hour of one whole GPU, also where the VM has only a part of one."""
    return price / kind.gpu.count * kind.gpu.parts


def tflops_per_usd(offering: Offering, price: Decimal | None) -> float | None:
    """Measured bf16 TFLOP/s of all its GPUs for each USD of `price` an hour. None: not measured, or no price."""
    if offering.benchmark is None or not price:
        return None
    return offering.benchmark.bf16_tflops_p50 * offering.type.gpu.count / float(price)


def _sort_key(offering: Offering, sort: OfferingSort) -> _Key:
    last, value = _rank(offering, sort)
    key = offering.key
    market = str(key.market) if key.reservation is None else f"{key.market} {key.reservation}"
    return (last, value, key.instance_type, key.account, key.region, key.zone, market)


def _rank(offering: Offering, sort: OfferingSort) -> tuple[bool, Decimal]:
    """Whether the offering lacks the value to sort by, and the value, smallest first."""
    price = price_at(offering, DEFAULT_PARTS)
    if sort is OfferingSort.PRICE_PERFORMANCE:
        value = tflops_per_usd(offering, price)
        return (True, _NO_PRICE if price is None else price) if value is None else (False, -_rounded(value))
    if price is None:
        return True, Decimal(0)
    return False, price_per_gpu(price, offering.type) if sort is OfferingSort.PRICE_PER_GPU else price


_NO_PRICE = Decimal(10**9)
_LAST = "?"
"""In a cursor, before a value of an offering that comes after those that have the value to sort by."""


def _rounded(value: float) -> Decimal:
    return Decimal(value).quantize(Decimal("0.000001"))


def _cursor(key: _Key, sort: OfferingSort) -> str:
    last, value, *names = key
    return cursor(f"offerings {sort}", f"{_LAST if last else ''}{value}", *names)


def _after(page: PageRequest, sort: OfferingSort) -> _Key | None:
    parts = page.after(f"offerings {sort}", 6)
    if parts is None:
        return None
    value, *names = parts
    return (value.startswith(_LAST), _decimal(value.removeprefix(_LAST)), *_five(names))


def _five(names: Iterable[str]) -> tuple[str, str, str, str, str]:
    instance_type, account, region, zone, market = names
    return instance_type, account, region, zone, market


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text or 0)
    except InvalidOperation:
        raise _wrong_cursor() from None
    if not number.is_finite():
        raise _wrong_cursor()
    return number


def _wrong_cursor() -> InvalidRequest:
    return InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
