"""Quotes: the price that a lease gets if it is created within 15 minutes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

from app.domain.billing import cost
from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Offering
from app.domain.rates import Rate, rate_at

VALID_FOR = timedelta(minutes=15)
_FREE = frozenset({"name", "labels", "ssh_public_keys", "ssh_keys"})
"""Fields of a request that a lease from a quote may change: they decide neither the offering nor the price."""
_SCRIPT = "has_startup_script"
_STORED = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedPrice:
    """What is quoted, in USD. `rate`: an hour at the first candidate. `total`: the whole term at that rate."""

    rate: Rate
    total: Decimal

    @classmethod
    def of(cls, offering: Offering, request: LeaseRequest) -> Self:
        """The price of a lease at `offering`. Raises ValueError when the offering has no price."""
        rate = rate_at(offering, disk_gib=request.disk_gib, public_ip=request.public_ip)
        total = cost(rate.total, timedelta(seconds=request.ttl_seconds)).quantize(_STORED)
        return cls(rate=rate, total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A stored quote. `request` is as its caller sent it.

    `ssh_keys`: names or ids of stored keys; None: the default keys of the caller. `has_script`: it was made for a lease
    with a start-up script, which is a secret and is not stored.
    """

    id: str
    request: LeaseRequest
    ssh_keys: tuple[str, ...] | None
    has_script: bool
    price_per_hour: Decimal
    expired: bool

    @classmethod
    def of(cls, row: Any) -> Self:
        """From a row of the table with `expired`."""
        stored: Mapping[str, Any] = row.request
        names = stored["ssh_keys"]
        return cls(
            id=row.id,
            request=LeaseRequest.from_json(stored),
            ssh_keys=None if names is None else tuple(names),
            has_script=stored[_SCRIPT],
            price_per_hour=row.price_per_hour,
            expired=row.expired,
        )

    def request_with(self, given: Mapping[str, Any]) -> LeaseRequest:
        """The request of a lease from this quote. `given`: the fields of the lease's own body that have a value."""
        return LeaseRequest.from_json({**self.request.as_json(), "ssh_keys": [], **given})

    def changed_fields(self, request: LeaseRequest) -> list[str]:
        """Fields of `request` that differ from the quote although they decide what the lease gets."""
        names = (field.name for field in fields(request) if field.name not in _FREE)
        return [name for name in names if getattr(request, name) != getattr(self.request, name)]

    def capped(self, request: LeaseRequest) -> LeaseRequest:
        """The request whose price is at most the quoted one."""
        own = request.max_price_per_hour
        ceiling = self.price_per_hour if own is None else min(own, self.price_per_hour)
        return replace(request, max_price_per_hour=ceiling)


def stored_request(
    request: LeaseRequest, *, ssh_keys: tuple[str, ...] | None, startup_script: str | None
) -> dict[str, Any]:
    """The form of `quote.request`, which `Quote.of` reads. It does not contain the script."""
    names = None if ssh_keys is None else list(ssh_keys)
    return {**request.as_json(), "ssh_keys": names, _SCRIPT: startup_script is not None}
