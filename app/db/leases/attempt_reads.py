"""The API's view of attempts. What is sent to the provider (params, token) is not readable to it."""

from typing import Any

from sqlalchemy import ColumnElement, func, select

from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import owned
from app.db.leases.billing import cost, price_segments
from app.db.schema.tables import attempt

_SHOWN = (
    "id",
    "n",
    "provider",
    "account",
    "region",
    "zone",
    "instance_type",
    "market",
    "reservation",
    "offering",
    *("price_per_hour", "disk_price_per_hour", "address_price_per_hour"),
    "state",
    "clean",
    "error",
    "instance_id",
    "vm_state",
    "first_sent_at",
    "settling_since",
    "known_at",
    "billing_started_at",
    "billing_ended_at",
    "created_at",
    "ended_at",
)


def _cost() -> ColumnElement[Any]:
    """USD until now, of all parts and at each price; null for an attempt that was never billed."""
    segment = price_segments()
    until = func.coalesce(segment.c.ends_at, func.now())
    return (
        select(func.sum(cost(segment.c.rate_per_hour, segment.c.starts_at, until)))
        .where(segment.c.attempt_id == attempt.c.id)
        .correlate(attempt)
        .scalar_subquery()
    )


def of_lease(lease_id: str, *, within: str | None, after: int, limit: int) -> AnySelect:
    """Tries of a lease of the tenant `within` (None: of any) numbered above `after`, in order, with the time (`as_of`)."""
    return (
        select(*(attempt.c[name] for name in _SHOWN), _cost().label("cost"), func.now().label("as_of"))
        .where(attempt.c.lease_id == lease_id, owned(attempt.c.tenant_id, within), attempt.c.n > after)
        .order_by(attempt.c.n)
        .limit(limit)
    )
