"""Placement: which offerings fit a request, in which order they are tried, and why the others are left out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Self

from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Market, MarketWish, Offering

_REFUSAL_STEPS = 10
_READY_STEP = 15.0
_DEARER = Decimal("1.5")


class Exclusion(StrEnum):
    """Why an offering is no candidate."""

    GPU_MODEL = "gpu_model"
    GPU_COUNT = "gpu_count"
    GPU_MEMORY = "gpu_memory"
    INSTANCE_TYPE = "instance_type"
    MARKET = "market"
    PROVIDER = "provider"
    REGION = "region"
    IMAGE = "image"
    NO_PRICE = "no_price"
    PRICE_CAP = "price_cap"
    CORDONED = "cordoned"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a tenant asked for, reduced to what placement looks at. None means any; of `image`, the account's default one."""

    gpu_model: str | None = None
    gpu_count: int = 1
    gpu_memory_gib: int | None = None
    instance_types: tuple[str, ...] | None = None
    market: MarketWish | None = None
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    max_price_per_hour: Decimal | None = None
    image: str | None = None

    @classmethod
    def of(cls, request: LeaseRequest) -> Self:
        """What placement looks at of a request."""
        gpu = request.gpu
        return cls(
            gpu_model=gpu.model if gpu else None,
            gpu_count=gpu.count if gpu else 1,
            gpu_memory_gib=gpu.memory_gib if gpu else None,
            instance_types=request.instance_types,
            market=request.market,
            providers=request.providers,
            regions=request.regions,
            max_price_per_hour=request.max_price_per_hour,
            image=request.image,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """An offering left out, with a sentence for the person who asked."""

    offering: Offering
    code: Exclusion
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """`candidates` in the order they are tried; `excluded` in catalogue order."""

    candidates: tuple[Offering, ...]
    excluded: tuple[Excluded, ...]


def exclusion(wish: Requirements, offering: Offering) -> Excluded | None:
    """The first reason why `offering` cannot serve `wish`, or None when it can."""
    for code, detail in _objections(wish, offering):
        return Excluded(offering=offering, code=code, detail=detail)
    return None


def _objections(wish: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    yield from _type_objections(wish, o)
    yield from _where_objections(wish, o)
    yield from _price_objections(wish, o)
    if o.cordoned:
        yield Exclusion.CORDONED, "taken out of use by an operator"
    if o.account_problem is not None:
        yield Exclusion.ACCOUNT, f"account {o.key.account} is set aside: {o.account_problem}"


def _type_objections(wish: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    gpu = o.type.gpu
    if wish.instance_types is not None and o.key.instance_type not in wish.instance_types:
        yield Exclusion.INSTANCE_TYPE, f"{o.key.instance_type} was not asked for"
    if wish.gpu_model is not None and gpu.model != wish.gpu_model:
        yield Exclusion.GPU_MODEL, f"has {gpu.model}, asked for {wish.gpu_model}"
    if gpu.count < wish.gpu_count:
        yield Exclusion.GPU_COUNT, f"has {gpu.count} GPUs, asked for {wish.gpu_count}"
    if wish.gpu_memory_gib is not None and gpu.memory_gib < wish.gpu_memory_gib:
        yield Exclusion.GPU_MEMORY, f"has {gpu.memory_gib} GiB a GPU, asked for {wish.gpu_memory_gib}"


def _where_objections(wish: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    if wish.providers is not None and o.provider not in wish.providers:
        yield Exclusion.PROVIDER, f"at {o.provider}, asked for {', '.join(wish.providers)}"
    if wish.regions is not None and o.key.region not in wish.regions:
        yield Exclusion.REGION, f"in {o.key.region}, asked for {', '.join(wish.regions)}"
    if wish.market in (MarketWish.ON_DEMAND, MarketWish.SPOT) and o.key.market != wish.market.value:
        yield Exclusion.MARKET, f"is {o.key.market}, asked for {wish.market}"
    if wish.image is not None and wish.image not in o.images:
        yield Exclusion.IMAGE, f"account {o.key.account} has no image named {wish.image}"


def _price_objections(wish: Requirements, o: Offering) -> Iterable[tuple[Exclusion, str]]:
    if o.price_per_hour is None:
        yield Exclusion.NO_PRICE, "its price is not known at present"
    elif wish.max_price_per_hour is not None and o.price_per_hour > wish.max_price_per_hour:
        yield Exclusion.PRICE_CAP, f"costs {o.price_per_hour} USD an hour, the cap is {wish.max_price_per_hour}"


def rank(wish: Requirements, offerings: Iterable[Offering], now: datetime) -> Ranking:
    """Candidates out of cool-off first, then by market wish and price; equal ones by what was learnt, then by name.

    Learnt are the share of refusals and the time to ready, each in steps, so that chance decides nothing. What was never
    tried counts as good.
    """
    candidates: list[Offering] = []
    excluded: list[Excluded] = []
    for offering in offerings:
        objection = exclusion(wish, offering)
        if objection is None:
            candidates.append(offering)
        else:
            excluded.append(objection)
    candidates.sort(key=lambda o: _rank_key(wish, o, now))
    return Ranking(candidates=tuple(candidates), excluded=tuple(excluded))


def _rank_key(wish: Requirements, o: Offering, now: datetime) -> tuple[object, ...]:
    spot_later = wish.market is MarketWish.SPOT_FIRST and o.key.market is not Market.SPOT
    refused = 0 if o.success_rate is None else round((1 - o.success_rate) * _REFUSAL_STEPS)
    slowness = 0 if o.ready_seconds is None else round(o.ready_seconds / _READY_STEP)
    k = o.key
    name = (k.account, k.region, k.zone, k.instance_type, k.market)
    return (o.cooling(now), spot_later, o.price_per_hour, refused, slowness, name)


def much_dearer(offering: Offering, others: Iterable[Offering]) -> bool:
    """Whether it costs more than 1.5 times as much as one of the others, for which it is worth waiting a while.

    A VM may have many more GPUs than asked for. Candidates all have a price.
    """
    return any(_price(offering) > _DEARER * _price(other) for other in others)


def _price(candidate: Offering) -> Decimal:
    assert candidate.price_per_hour is not None
    return candidate.price_per_hour
