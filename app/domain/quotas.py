"""Quota: what a lease at an offering counts for, and the minimum that admission claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from app.domain.money import format_money
from app.domain.offerings import Offering
from app.domain.rates import rate_at
from app.domain.vm_parts import PartsRequest

GPUS = "gpus"
LEASES = "leases"
SPEND_PER_HOUR = "spend_per_hour"
VOLUME_GIB = "volume_gib"
MODEL_PREFIX = "gpus:"

Amounts = dict[str, Decimal]
"""Resource name -> amount. GPUs, leases and GiB are whole numbers, `spend_per_hour` is USD."""

JsonAmount = int | str
"""An amount in JSON: a number, or USD as a decimal string for `spend_per_hour`, so that no client rounds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource whose limit does not leave room: `limit` None means no limit row where one is required."""

    resource: str
    limit: Decimal | None
    used: Decimal
    asked: Decimal


def amounts(offering: Offering, parts: PartsRequest) -> Amounts:
    """What one lease at `offering` counts for; zero (a free VM's spend) is left out.

    Raises ValueError when the offering has no price.
    """
    gpus = Decimal(offering.type.gpu.count)
    counted = {
        GPUS: gpus,
        MODEL_PREFIX + offering.type.gpu.model: gpus,
        LEASES: Decimal(1),
        SPEND_PER_HOUR: rate_at(offering, parts).total,
    }
    return {resource: amount for resource, amount in counted.items() if amount}


def minimum(candidates: Iterable[Offering], parts: PartsRequest) -> Amounts:
    """What admission claims: for each resource that all candidates need, the least that any does."""
    each = [amounts(candidate, parts) for candidate in candidates]
    if not each:
        return {}
    shared = set(each[0]).intersection(*each[1:])
    return {resource: min(needs[resource] for needs in each) for resource in sorted(shared)}


def is_valid_resource(resource: str) -> bool:
    """Whether a quota may be set for `resource`: `gpus`, `gpus:MODEL`, `leases`, `spend_per_hour` or `volume_gib`."""
    return resource in (GPUS, LEASES, SPEND_PER_HOUR, VOLUME_GIB) or (
        resource.startswith(MODEL_PREFIX) and len(resource) > len(MODEL_PREFIX)
    )


def allowed(resource: str, *, limit: Decimal | None, used: Decimal, delta: Decimal) -> bool:
    """The rule that `app.db.tenancy.quotas` states in SQL: `gpus` needs a limit, the rest is unlimited without one."""
    if delta <= 0:
        return True
    if limit is None:
        return resource != GPUS
    return used + delta <= limit


def available(resource: str, limit: Decimal | None, used: Decimal) -> Decimal | None:
    """The amount that is left of a limit. None: any amount."""
    if limit is None:
        return Decimal(0) if resource == GPUS else None
    return max(limit - used, Decimal(0))


def shortages(limits: Mapping[str, Decimal | None], used: Mapping[str, Decimal], needed: Amounts) -> list[Shortage]:
    """Every resource of `needed` that does not fit, in sorted order."""
    none = Decimal(0)
    return [
        Shortage(resource=name, limit=limits.get(name), used=used.get(name, none), asked=asked)
        for name, asked in sorted(needed.items())
        if not allowed(name, limit=limits.get(name), used=used.get(name, none), delta=asked)
    ]


def json_amount(resource: str, value: Decimal) -> JsonAmount:
    """The amount as the API, events and errors show it."""
    return format_money(value) if resource == SPEND_PER_HOUR else int(value)


def json_limit(resource: str, value: Decimal | None) -> JsonAmount | None:
    """The same of an amount that may be absent."""
    return None if value is None else json_amount(resource, value)
