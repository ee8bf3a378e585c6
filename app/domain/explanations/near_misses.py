"""Offerings that a request excludes: grouped by rule, and the changes of the request that make one of them fit."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from app.domain.explanations.relaxations import RELAXATIONS, market_words
from app.domain.lease_requests import LeaseRequest
from app.domain.money import format_money
from app.domain.offerings import Gpu, Offering, OfferingKey
from app.domain.placement import Excluded, Exclusion, Ranking, Requirements, exclusion, exclusions, rank
from app.domain.rates import price_at
from app.domain.vm_parts import DEFAULT_PARTS, PartsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedGroup:
    """The offerings that one rule excludes. `message`: why, as a sentence without the nearest offering."""

    code: Exclusion
    count: int
    message: str
    nearest: Excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMisses:
    """`groups`: the largest first. `single`: offerings that exactly one rule excludes, by rule."""

    groups: tuple[ExcludedGroup, ...]
    single: Mapping[Exclusion, tuple[Offering, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change of the request with which `offering` would be tried first. `change`: request fields as JSON.

    `code`: the rule that the change relaxes. `message`: an imperative sentence.
    """

    code: Exclusion
    message: str
    change: Mapping[str, Any]
    offering: Offering


GROUP_TEXTS: Mapping[Exclusion, tuple[str, str]] = MappingProxyType(
    {
        Exclusion.GPU_MODEL: ("has another GPU model", "have another GPU model"),
        Exclusion.GPU_COUNT: ("has another number of GPUs", "have another number of GPUs"),
        Exclusion.GPU_MEMORY: ("has less memory per GPU", "have less memory per GPU"),
        Exclusion.GPU_VENDOR: ("has GPUs of another vendor", "have GPUs of another vendor"),
        Exclusion.GPU_FRACTION: ("has a part of a GPU", "have parts of a GPU"),
        Exclusion.INTERCONNECT: ("connects its GPUs differently", "connect their GPUs differently"),
        Exclusion.VCPUS: ("has fewer vCPUs", "have fewer vCPUs"),
        Exclusion.MEMORY: ("has less memory", "have less memory"),
        Exclusion.LOCAL_DISK: ("has less local disk", "have less local disk"),
        Exclusion.INSTANCE_TYPE: ("has another instance type", "have another instance type"),
        Exclusion.MARKET: ("is in another market", "are in another market"),
        Exclusion.PROVIDER: ("is at another provider", "are at another provider"),
        Exclusion.REGION: ("is in another region", "are in another region"),
        Exclusion.IMAGE: ("does not have the requested image", "do not have the requested image"),
        Exclusion.RESERVED_ONLY: ("is sold only as reserved capacity", "are sold only as reserved capacity"),
        Exclusion.NO_DRIVER_IMAGE: ("has no image with its driver", "have no image with their driver"),
        Exclusion.NO_PRICE: ("has no known price", "have no known price"),
        Exclusion.PRICE_CAP: ("costs more than max_price_per_hour", "cost more than max_price_per_hour"),
        Exclusion.CORDONED: ("is cordoned by an operator", "are cordoned by an operator"),
        Exclusion.ACCOUNT: ("is in an account that is set aside", "are in accounts that are set aside"),
        Exclusion.RESERVATION: (
            "is a reservation that the lease cannot use",
            "are reservations that the lease cannot use",
        ),
        Exclusion.SPEND_CAP: ("costs more in a minute than max_cost", "cost more in a minute than max_cost"),
        Exclusion.QUOTE: ("costs more than the quote", "cost more than the quote"),
        Exclusion.VOLUME_ELSEWHERE: ("is not where the volumes are", "are not where the volumes are"),
        Exclusion.VOLUME_KIND: ("cannot attach the volumes", "cannot attach the volumes"),
    }
)
"""What one offering, and what several offerings, of a group have in common."""


def describe(offering: Offering, parts: PartsRequest) -> str:
    """`g5.xlarge spot in us-east-1a (aws) at 0.40 USD an hour`: with all parts."""
    return describe_place(offering.key, offering.provider, price_at(offering, parts))


def describe_place(key: OfferingKey, provider: str, price_per_hour: Decimal | None) -> str:
    """As `describe`, of an offering that may have left the catalogue."""
    cost = "without a known price" if price_per_hour is None else f"at {format_money(price_per_hour)} USD an hour"
    market = market_words(key.market) if key.reservation is None else f"of reservation {key.reservation}"
    return f"{key.instance_type} {market} in {key.zone or key.region} ({provider}) {cost}"


def find_near_misses(requirements: Requirements, ranking: Ranking) -> NearMisses:
    """Groups the excluded offerings of a ranking by their first reason."""
    nearness = _MissDistance(_requested_gpu(requirements, ranking), requirements.gpu_count, requirements.parts)
    groups: dict[Exclusion, list[tuple[bool, Excluded]]] = defaultdict(list)
    single: dict[Exclusion, list[Offering]] = defaultdict(list)
    for excluded in ranking.excluded:
        is_single = len(exclusions(requirements, excluded.offering, 2)) == 1
        groups[excluded.code].append((is_single, excluded))
        if is_single:
            single[excluded.code].append(excluded.offering)
    return NearMisses(
        groups=tuple(_group(code, members, nearness) for code, members in sorted(groups.items(), key=_by_size)),
        single={code: tuple(sorted(offerings, key=nearness.key(code))) for code, offerings in single.items()},
    )


def _by_size(group: tuple[Exclusion, list[Any]]) -> tuple[int, str]:
    return -len(group[1]), group[0]


def _group(code: Exclusion, members: list[tuple[bool, Excluded]], nearness: "_MissDistance") -> ExcludedGroup:
    key = nearness.key(code)
    _, nearest = min(members, key=lambda member: (not member[0], key(member[1].offering)))
    is_one = len(members) == 1
    text = GROUP_TEXTS[code][0 if is_one else 1]
    message = f"{len(members)} {'offering' if is_one else 'offerings'} {text}"
    return ExcludedGroup(code=code, count=len(members), message=message, nearest=nearest)


def _requested_gpu(requirements: Requirements, ranking: Ranking) -> Gpu | None:
    """The GPUs of an offering of the requested model or type, whether it is a candidate or not."""
    types = requirements.instance_types or ()
    every = (*ranking.candidates, *(excluded.offering for excluded in ranking.excluded))
    return next(
        (o.type.gpu for o in every if o.type.gpu.model == requirements.gpu_model or o.key.instance_type in types), None
    )


@dataclass(frozen=True, slots=True)
class _MissDistance:
    """Which offering misses a request least: the smallest key. `gpu`: what the request names, where it is known.

    `count`: the exact number of GPUs that the request names. None: it names none, or a minimum.
    """

    gpu: Gpu | None
    count: int | None = None
    parts: PartsRequest = DEFAULT_PARTS

    def key(self, code: Exclusion) -> Callable[[Offering], tuple[Any, ...]]:
        """The nearest number of GPUs, most memory, or similar hardware, by rule. Then the cheapest offering."""
        match code:
            case Exclusion.GPU_COUNT:
                return lambda o: (*self._count(o.type.gpu), *self._price(o))
            case Exclusion.GPU_MEMORY:
                return lambda o: (-o.type.gpu.memory_gib, *self._price(o))
            case Exclusion.GPU_MODEL | Exclusion.INSTANCE_TYPE if self.gpu is not None:
                return lambda o: (*self._hardware(o.type.gpu), *self._price(o))
        return self._price

    def _price(self, o: Offering) -> tuple[Any, ...]:
        return _by_price(o, self.parts)

    def _count(self, gpu: Gpu) -> tuple[int, int]:
        """Nearest to an exact number, or most GPUs."""
        return (0 if self.count is None else abs(gpu.count - self.count)), -gpu.count

    def _hardware(self, gpu: Gpu) -> tuple[bool, bool]:
        """Weaker hardware comes last, then other models."""
        assert self.gpu is not None
        is_weaker = gpu.count * gpu.memory_gib < self.gpu.count * self.gpu.memory_gib
        return is_weaker, gpu.model != self.gpu.model


def _by_price(o: Offering, parts: PartsRequest) -> tuple[Any, ...]:
    k = o.key
    name = (k.account, k.region, k.zone, k.instance_type, k.market, k.reservation or "")
    price = price_at(o, parts)
    return (price is None, price or Decimal(0), name)


# --- suggestions --------------------------------------------------------------------------------------------

_MOST_TRIED = 100
"""Near misses of one rule that `suggest` checks, the nearest first. It bounds the cost where none of them is free."""


def suggest(
    request: LeaseRequest,
    near: NearMisses,
    candidates: Iterable[Offering],
    is_free: Callable[[Offering], bool],
    now: datetime,
) -> tuple[Suggestion, ...]:
    """One change of a single requirement for each rule that has a free near miss, the cheapest first.

    The changed request ranks the candidates and the near misses of that rule anew: the suggestion names its first free
    candidate. An offering that two rules exclude needs two changes, so it stays excluded.
    """
    known = tuple(candidates)
    suggestions = (
        _suggest_for(code, request, (*known, *near.single[code]), near, is_free, now) for code in near.single
    )
    return tuple(
        sorted((s for s in suggestions if s is not None), key=lambda s: (_by_price(s.offering, request.parts), s.code))
    )


def _suggest_for(
    code: Exclusion,
    request: LeaseRequest,
    offerings: tuple[Offering, ...],
    near: NearMisses,
    is_free: Callable[[Offering], bool],
    now: datetime,
) -> Suggestion | None:
    change = RELAXATIONS[code]
    if change is None:
        return None
    for offering in filter(is_free, near.single[code][:_MOST_TRIED]):
        changed, message = change(request, offering)
        requirements = Requirements.of(changed)
        if exclusion(requirements, offering) is None:
            first = next(o for o in rank(requirements, offerings, now).candidates if is_free(o))
            return Suggestion(code=code, message=message, change=difference(request, changed), offering=first)
    return None


def difference(request: LeaseRequest, changed: LeaseRequest) -> dict[str, Any]:
    """The fields of `changed` that differ, as a create call takes them."""
    before, after = request.as_json(), changed.as_json()
    return {name: value for name, value in after.items() if value != before[name]}
