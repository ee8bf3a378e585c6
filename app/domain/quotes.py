"""Quotes: the price that a lease gets if it is created within 15 minutes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

from app.domain.billing import term_cost
from app.domain.lease_requests import LeaseRequest
from app.domain.rates import Rate

VALID_FOR = timedelta(minutes=15)
_FREE = frozenset({"name", "labels", "ssh_public_keys", "ssh_keys"})
"""Fields of a request that a lease from a quote may change: they decide neither the offering nor the price."""
_CAP, _WARNINGS, _SCRIPT = "max_cost", "expiry_warnings", "has_startup_script"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedPrice:
    """What is quoted, in USD. `rate`: an hour at the first candidate. `total`: the whole term at that rate, rounded up."""

    rate: Rate
    total: Decimal

    @classmethod
    def of(cls, rate: Rate, ttl_seconds: int) -> Self:
        """The price of a lease of this term. `rate`: at the first candidate."""
        return cls(rate=rate, total=term_cost(rate, ttl_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A stored quote. `request` is as its caller sent it.

    `max_cost`: the spend cap in USD; None: no cap. `expiry_warnings`: seconds before the end; None: the installation's.
    `ssh_keys`: names or ids of stored keys; None: the default keys of the caller. `has_script`: it was made for a lease
    with a start-up script, which is a secret and is not stored. `price_per_hour`: USD with all parts. A lease from
    the quote is launched nowhere at a higher rate.
    """

    id: str
    request: LeaseRequest
    max_cost: Decimal | None
    expiry_warnings: tuple[int, ...] | None
    ssh_keys: tuple[str, ...] | None
    has_script: bool
    price_per_hour: Decimal
    expired: bool

    @classmethod
    def of(cls, row: Any) -> Self:
        """From a row of the table with `expired`."""
        stored: Mapping[str, Any] = row.request
        names, cap, warnings = stored["ssh_keys"], stored[_CAP], stored[_WARNINGS]
        return cls(
            id=row.id,
            request=LeaseRequest.from_json(stored),
            max_cost=None if cap is None else Decimal(cap),
            expiry_warnings=None if warnings is None else tuple(warnings),
            ssh_keys=None if names is None else tuple(names),
            has_script=stored[_SCRIPT],
            price_per_hour=row.price_per_hour,
            expired=row.expired,
        )

    def request_with(self, overrides: Mapping[str, Any]) -> LeaseRequest:
        """The request of a lease from this quote. `overrides`: the fields of the lease's own body that have a value."""
        return LeaseRequest.from_json({**self.request.as_json(), "ssh_keys": [], **overrides})

    def changed_fields(self, request: LeaseRequest) -> list[str]:
        """Fields of `request` that differ from the quote although they decide what the lease gets."""
        names = (field.name for field in fields(request) if field.name not in _FREE)
        return [name for name in names if getattr(request, name) != getattr(self.request, name)]


def stored_request(
    request: LeaseRequest,
    *,
    max_cost: Decimal | None,
    expiry_warnings: tuple[int, ...] | None,
    ssh_keys: tuple[str, ...] | None,
    startup_script: str | None,
) -> dict[str, Any]:
    """The form of `quote.request`, which `Quote.of` reads: all of a create call except the script."""
    return {
        **request.as_json(),
        _CAP: None if max_cost is None else str(max_cost),
        _WARNINGS: None if expiry_warnings is None else list(expiry_warnings),
        "ssh_keys": None if ssh_keys is None else list(ssh_keys),
        _SCRIPT: startup_script is not None,
    }
