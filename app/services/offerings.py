"""The catalogue as callers see it: filtered, ordered, in pages."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from app.domain.offerings import Market, Offering
from app.services.cursors import PageRequest, cursor
from app.services.errors import FieldError, InvalidRequest
from app.services.offering_cache import OfferingCache

_Key = tuple[bool, Decimal, str, str, str, str, str]


class OfferingSort(StrEnum):
    """Cheapest first: for the whole VM, or for one of its GPUs. Unknown prices come last."""

    PRICE = "price"
    PRICE_PER_GPU = "price_per_gpu"


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
    """`until` and `reason` are known while it cools off; `reason` also when it is unavailable."""

    status: AvailabilityStatus
    until: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingFilter:
    """All that is given must hold. None means any."""

    gpu_model: str | None = None
    min_gpus: int | None = None
    min_gpu_memory_gib: int | None = None
    market: Market | None = None
    provider: str | None = None
    account: str | None = None
    region: str | None = None
    instance_type: str | None = None
    max_price_per_hour: Decimal | None = None

    def takes(self, offering: Offering) -> bool:
        """Whether `offering` is to be shown."""
        return self._takes_place(offering) and self._takes_hardware(offering) and self._takes_price(offering)

    def _takes_place(self, offering: Offering) -> bool:
        key = offering.key
        wanted = (self.market, self.provider, self.account, self.region, self.instance_type)
        found = (key.market, offering.provider, key.account, key.region, key.instance_type)
        return all(want is None or want == have for want, have in zip(wanted, found, strict=True))

    def _takes_hardware(self, offering: Offering) -> bool:
        gpu = offering.type.gpu
        return (
            (self.gpu_model is None or gpu.model == self.gpu_model)
            and gpu.count >= (self.min_gpus or 0)
            and gpu.memory_gib >= (self.min_gpu_memory_gib or 0)
        )

    def _takes_price(self, offering: Offering) -> bool:
        if self.max_price_per_hour is None:
            return True
        return offering.price_per_hour is not None and offering.price_per_hour <= self.max_price_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingPage:
    """Lines of the catalogue as of `as_of`."""

    offerings: tuple[Offering, ...]
    as_of: datetime
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImage:
    """An image that leases may ask for. `places`: (provider, account) of each account that has it, in order."""

    name: str
    places: tuple[tuple[str, str], ...]


class OfferingService:
    """Reads the catalogue."""

    def __init__(self, catalogue: OfferingCache) -> None:
        self._catalogue = catalogue

    async def list(self, wanted: OfferingFilter, sort: OfferingSort, page: PageRequest) -> OfferingPage:
        """Raises InvalidRequest for a cursor of another list."""
        snapshot = await self._catalogue.snapshot()
        after = _after(page, sort)
        keyed = sorted(
            ((_sort_key(offering, sort), offering) for offering in snapshot.offerings if wanted.takes(offering)),
            key=lambda entry: entry[0],
        )
        rest = [(key, offering) for key, offering in keyed if after is None or key > after]
        shown = rest[: page.limit]
        more = _cursor(shown[-1][0], sort) if len(rest) > page.limit else None
        return OfferingPage(offerings=tuple(offering for _, offering in shown), as_of=snapshot.as_of, next_cursor=more)

    async def images(self) -> tuple[NamedImage, ...]:
        """By name; of accounts with offerings."""
        places: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for offering in (await self._catalogue.snapshot()).offerings:
            for name in offering.images:
                places[name].add((offering.provider, offering.key.account))
        return tuple(NamedImage(name=name, places=tuple(sorted(places[name]))) for name in sorted(places))


def availability(offering: Offering, now: datetime, *, operator: bool) -> Availability:
    """What goes on in a provider account is told to operators only."""
    if offering.account_problem is not None:
        reason = offering.account_problem if operator else "the provider account is set aside at present"
        return Availability(status=AvailabilityStatus.UNAVAILABLE, reason=reason)
    if offering.cordoned:
        return Availability(status=AvailabilityStatus.UNAVAILABLE, reason="taken out of use by an operator")
    if offering.price_per_hour is None:
        return Availability(status=AvailabilityStatus.UNAVAILABLE, reason="its price is not known at present")
    cool = offering.cool_off
    if cool is None:
        known = offering.launches > 0
        return Availability(status=AvailabilityStatus.AVAILABLE if known else AvailabilityStatus.UNKNOWN)
    if cool.until > now:
        return Availability(status=AvailabilityStatus.COOLING_OFF, until=cool.until, reason=cool.reason)
    return Availability(status=AvailabilityStatus.UNKNOWN)


def _sort_key(offering: Offering, sort: OfferingSort) -> _Key:
    price = offering.price_per_hour
    shown = Decimal(0) if price is None else price
    if sort is OfferingSort.PRICE_PER_GPU:
        shown /= offering.type.gpu.count
    key = offering.key
    return (price is None, shown, key.instance_type, key.account, key.region, key.zone, str(key.market))


def _cursor(key: _Key, sort: OfferingSort) -> str:
    unknown, price, *names = key
    return cursor(f"offerings {sort}", "" if unknown else str(price), *names)


def _after(page: PageRequest, sort: OfferingSort) -> _Key | None:
    parts = page.after(f"offerings {sort}", 6)
    if parts is None:
        return None
    price, *names = parts
    return (not price, _decimal(price), *_five(names))


def _five(names: Iterable[str]) -> tuple[str, str, str, str, str]:
    instance_type, account, region, zone, market = names
    return instance_type, account, region, zone, market


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(text or 0)
    except InvalidOperation:
        raise _wrong_cursor() from None
    if not found.is_finite():
        raise _wrong_cursor()
    return found


def _wrong_cursor() -> InvalidRequest:
    return InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
