"""Placement: which offerings fit a request, the order in which they are tried, and why others are excluded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Any, Self

from app.domain.error_kinds import ErrorKind
from app.domain.lease_requests import LeaseRequest
from app.domain.money import format_money
from app.domain.offerings import Gpu, GpuVendor, Interconnect, Market, MarketPreference, Obstacle, Offering, OfferingKey
from app.domain.rates import price_at
from app.domain.vm_parts import DEFAULT_PARTS, PartsRequest

_REFUSAL_STEPS = 10
_READY_STEP = 15.0
_DEARER = Decimal("1.5")
_MARKETS: Mapping[MarketPreference, frozenset[Market]] = {
    MarketPreference.ON_DEMAND: frozenset({Market.ON_DEMAND}),
    MarketPreference.SPOT: frozenset({Market.SPOT}),
    MarketPreference.SPOT_FIRST: frozenset({Market.SPOT, Market.ON_DEMAND}),
    MarketPreference.RESERVED: frozenset({Market.RESERVED}),
    MarketPreference.RESERVED_FIRST: frozenset({Market.RESERVED, Market.ON_DEMAND}),
    MarketPreference.ANY: frozenset(Market),
}
"""The markets that serve a request."""
_FIRST: Mapping[MarketPreference, Market] = {
    MarketPreference.SPOT_FIRST: Market.SPOT,
    MarketPreference.RESERVED_FIRST: Market.RESERVED,
}

PATIENCE = timedelta(seconds=60)
"""How long even a lease with `wait_seconds` 0 waits until its accounts are listed and reachable.

During this time the lease takes no much more expensive offering.
"""


class Exclusion(StrEnum):
    """Why an offering is no candidate."""

    GPU_MODEL = "gpu_model"
    GPU_COUNT = "gpu_count"
    GPU_MEMORY = "gpu_memory"
    GPU_VENDOR = "gpu_vendor"
    GPU_FRACTION = "gpu_fraction"
    INTERCONNECT = "interconnect"
    VCPUS = "vcpus"
    MEMORY = "memory"
    LOCAL_DISK = "local_disk"
    INSTANCE_TYPE = "instance_type"
    MARKET = "market"
    PROVIDER = "provider"
    REGION = "region"
    IMAGE = "image"
    RESERVED_ONLY = "reserved_only"
    NO_DRIVER_IMAGE = "no_driver_image"
    NO_PRICE = "no_price"
    PRICE_CAP = "price_cap"
    CORDONED = "cordoned"
    ACCOUNT = "account"
    RESERVATION = "reservation"
    SPEND_CAP = "spend_cap"
    QUOTE = "quote"
    VOLUME_ELSEWHERE = "volume_elsewhere"
    VOLUME_KIND = "volume_kind"


CORDONED_DETAIL = "cordoned by an operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The part of a lease request that placement reads. None means any. An `image` of None is the account's default.

    `gpu_count` is exact, and `min_gpu_count` is a minimum. `parts` decides what disks and the address cost.
    """

    gpu_model: str | None = None
    gpu_count: int | None = None
    min_gpu_count: int | None = None
    gpu_memory_gib: int | None = None
    gpu_vendor: GpuVendor | None = None
    interconnect: Interconnect | None = None
    min_vcpus: int | None = None
    min_memory_gib: int | None = None
    min_local_disk_gib: int | None = None
    instance_types: tuple[str, ...] | None = None
    market: MarketPreference = MarketPreference.ANY
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    max_price_per_hour: Decimal | None = None
    image: str | None = None
    parts: PartsRequest = DEFAULT_PARTS

    @classmethod
    def of(cls, request: LeaseRequest) -> Self:
        """Extracts the requirements from a lease request."""
        gpu = request.gpu
        return cls(
            gpu_model=gpu.model if gpu else None,
            gpu_count=gpu.count if gpu else None,
            min_gpu_count=gpu.min_count if gpu else None,
            gpu_memory_gib=gpu.memory_gib if gpu else None,
            gpu_vendor=gpu.vendor if gpu else None,
            interconnect=gpu.interconnect if gpu else None,
            min_vcpus=request.min_vcpus,
            min_memory_gib=request.min_memory_gib,
            min_local_disk_gib=request.min_local_disk_gib,
            instance_types=request.instance_types,
            market=request.market,
            providers=request.providers,
            regions=request.regions,
            max_price_per_hour=request.max_price_per_hour,
            image=request.image,
            parts=request.parts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """An excluded offering, with an explanation for the tenant."""

    offering: Offering
    code: Exclusion
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """`candidates` in the order they are tried; `excluded` in catalogue order."""

    candidates: tuple[Offering, ...]
    excluded: tuple[Excluded, ...]


def exclusion(requirements: Requirements, offering: Offering) -> Excluded | None:
    """The first reason why `offering` does not meet `requirements`, or None when it can."""
    for code, detail in _objections(requirements, offering):
        return Excluded(offering=offering, code=code, detail=detail)
    return None


def exclusions(requirements: Requirements, offering: Offering, most: int) -> tuple[Excluded, ...]:
    """The first `most` reasons why `offering` does not meet `requirements`, starting with that of `exclusion`."""
    objections = islice(_objections(requirements, offering), most)
    return tuple(Excluded(offering=offering, code=code, detail=detail) for code, detail in objections)


def _objections(requirements: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    yield from _type_objections(requirements, o)
    yield from _size_objections(requirements, o)
    yield from _where_objections(requirements, o)
    if o.obstacle is not None:
        yield _BY_OBSTACLE[o.obstacle], _obstacle_detail(o, o.obstacle)
    yield from _price_objections(requirements, o)
    if o.cordoned:
        yield Exclusion.CORDONED, CORDONED_DETAIL
    if o.account_problem is not None:
        yield Exclusion.ACCOUNT, f"account {o.key.account} is set aside: {o.account_problem}"


def _type_objections(requirements: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    gpu = o.type.gpu
    if requirements.instance_types is not None and o.key.instance_type not in requirements.instance_types:
        yield Exclusion.INSTANCE_TYPE, f"{o.key.instance_type} was not requested"
    if requirements.gpu_model is not None and gpu.model != requirements.gpu_model:
        yield Exclusion.GPU_MODEL, f"has {gpu.model}, requested {requirements.gpu_model}"
    yield from _count_objections(requirements, gpu)
    if requirements.gpu_memory_gib is not None and gpu.memory_gib < requirements.gpu_memory_gib:
        yield Exclusion.GPU_MEMORY, f"has {gpu.memory_gib} GiB a GPU, requested {requirements.gpu_memory_gib}"
    if requirements.gpu_vendor is not None and gpu.vendor is not requirements.gpu_vendor:
        yield Exclusion.GPU_VENDOR, f"has GPUs of {gpu.vendor}, requested {requirements.gpu_vendor}"
    if requirements.interconnect is not None and not gpu.interconnect.serves(requirements.interconnect):
        yield Exclusion.INTERCONNECT, f"connects its GPUs by {gpu.interconnect}, requested {requirements.interconnect}"
    if requirements.instance_types is None and gpu.parts > 1:
        yield Exclusion.GPU_FRACTION, f"has 1/{gpu.parts} of a GPU: ask for it by instance_types"


def _count_objections(requirements: Requirements, gpu: Gpu) -> Iterable[tuple[Exclusion, str]]:
    if requirements.gpu_count is not None and gpu.count != requirements.gpu_count:
        yield Exclusion.GPU_COUNT, f"has {gpu.count} GPUs, requested {requirements.gpu_count}"
    if gpu.count < (requirements.min_gpu_count or 0):
        yield Exclusion.GPU_COUNT, f"has {gpu.count} GPUs, requested at least {requirements.min_gpu_count}"


def _size_objections(requirements: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    kind = o.type
    if kind.vcpus < (requirements.min_vcpus or 0):
        yield Exclusion.VCPUS, f"has {kind.vcpus} vCPUs, requested {requirements.min_vcpus}"
    if kind.memory_gib < (requirements.min_memory_gib or 0):
        yield Exclusion.MEMORY, f"has {kind.memory_gib:f} GiB of memory, requested {requirements.min_memory_gib}"
    if kind.local_disk_gib < (requirements.min_local_disk_gib or 0):
        yield (
            Exclusion.LOCAL_DISK,
            f"has {kind.local_disk_gib} GiB of local disk, requested {requirements.min_local_disk_gib}",
        )


_BY_OBSTACLE = {
    Obstacle.RESERVED_ONLY: Exclusion.RESERVED_ONLY,
    Obstacle.NO_DRIVER_IMAGE: Exclusion.NO_DRIVER_IMAGE,
}


def _obstacle_detail(o: Offering, obstacle: Obstacle) -> str:
    if obstacle is Obstacle.RESERVED_ONLY:
        return f"{o.provider} sells it {o.key.market.value.replace('_', ' ')} only as reserved capacity"
    return f"account {o.key.account} names no image with the driver {o.type.gpu.driver}"


def _where_objections(requirements: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    if requirements.providers is not None and o.provider not in requirements.providers:
        yield Exclusion.PROVIDER, f"at {o.provider}, requested {', '.join(requirements.providers)}"
    if requirements.regions is not None and o.key.region not in requirements.regions:
        yield Exclusion.REGION, f"in {o.key.region}, requested {', '.join(requirements.regions)}"
    if o.key.market not in _MARKETS[requirements.market]:
        yield Exclusion.MARKET, f"is {o.key.market}, requested {requirements.market}"
    if _waits_at_provider(o) and requirements.market is MarketPreference.ANY:
        yield Exclusion.MARKET, "waits in the provider's queue: request market reserved or reserved_first"
    if requirements.image is not None and requirements.image not in o.images:
        yield Exclusion.IMAGE, f"account {o.key.account} has no image named {requirements.image}"


def _waits_at_provider(o: Offering) -> bool:
    return o.reservation is not None and o.reservation.shortest_wait is not None


def _price_objections(requirements: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    cap = requirements.max_price_per_hour
    if o.price_per_hour is None:
        yield Exclusion.NO_PRICE, "its price is not known at present"
    elif cap is not None and (price := _price(requirements, o)) > cap:
        yield Exclusion.PRICE_CAP, f"costs {format_money(price)} USD an hour, the cap is {cap}"


def rank(requirements: Requirements, offerings: Iterable[Offering], now: datetime) -> Ranking:
    """Sorts candidates out of cool-off first, then by requested market and price, then by statistics, then by name.

    The statistics are the share of refusals and the time to ready. Both are rounded to steps, so that chance does not
    decide the order. An offering that was never tried counts as good.
    """
    candidates: list[Offering] = []
    excluded: list[Excluded] = []
    for offering in offerings:
        objection = exclusion(requirements, offering)
        if objection is None:
            candidates.append(offering)
        else:
            excluded.append(objection)
    candidates.sort(key=lambda o: _rank_key(requirements, o, now))
    return Ranking(candidates=tuple(candidates), excluded=tuple(excluded))


def _rank_key(requirements: Requirements, o: Offering, now: datetime) -> tuple[object, ...]:
    first = _FIRST.get(requirements.market)
    later = first is not None and o.key.market is not first
    refused = 0 if o.success_rate is None else round((1 - o.success_rate) * _REFUSAL_STEPS)
    slowness = 0 if o.ready_seconds is None else round(o.ready_seconds / _READY_STEP)
    k = o.key
    somewhere = k.zone == k.region  # of a region as a whole: old and new offerings of a type may stand side by side
    name = (k.account, k.region, somewhere, k.zone, k.instance_type, k.market, k.reservation or "")
    return (o.cooling(now), later, _price(requirements, o), refused, slowness, name)


def much_dearer(offering: Offering, others: Iterable[Offering]) -> bool:
    """Whether compute at `offering` costs more than 1.5 times as much as at one of `others`: then waiting is worth it.

    A VM may have many more GPUs than requested. All candidates have a price.
    """
    price = offering.price_per_hour or Decimal(0)
    return any(price > _DEARER * (other.price_per_hour or Decimal(0)) for other in others)


def tried_offerings(
    attempts: Iterable[tuple[OfferingKey, dict[str, Any] | None]],
) -> dict[OfferingKey, dict[str, Any] | None]:
    """The offerings that a pass does not try again, with the error of the last attempt, of (offering, error) in a pass.

    An offering whose only attempt met a network without a free address is tried once more, in another network.
    """
    errors: dict[OfferingKey, list[dict[str, Any] | None]] = {}
    for key, error in attempts:
        errors.setdefault(key, []).append(error)
    return {
        key: of_offering[-1]
        for key, of_offering in errors.items()
        if len(of_offering) > 1 or not _met_full_network(of_offering[0])
    }


def _met_full_network(error: dict[str, Any] | None) -> bool:
    return error is not None and error.get("class") == ErrorKind.NETWORK_FULL


def _price(requirements: Requirements, candidate: Offering) -> Decimal:
    return price_at(candidate, requirements.parts) or Decimal(0)
