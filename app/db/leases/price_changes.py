"""Statements on the changes of the price of a running attempt."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Insert, Text, Update, and_, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSONB

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect
from app.db.events.events import NewEvent
from app.db.leases import spend_caps
from app.db.leases.transitions import NOW, WAKE, write
from app.db.schema.tables import attempt, attempt_price, lease, offering
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState
from app.domain.rates import Rate

_FROM_NOW = spend_caps.rate_begins(NOW)
_REPRICED = lease.c.placement.concat(bindparam("prices", type_=JSONB))
_OF_ATTEMPT = select(attempt_price.c.starts_at, attempt_price.c.price_per_hour).where(
    attempt_price.c.attempt_id == bindparam("attempt", type_=Text)
)


def of_attempt(attempt_id: AttemptId) -> Bound[AnySelect]:
    """(starts_at, price_per_hour) of the changes of an attempt."""
    return Bound(_OF_ATTEMPT, {"attempt": attempt_id})


def _current() -> Any:
    """The compute price at which an attempt is billed now: of its last change, else as planned."""
    newest = (
        select(attempt_price.c.price_per_hour)
        .where(attempt_price.c.attempt_id == attempt.c.id)
        .order_by(attempt_price.c.starts_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(newest, attempt.c.price_per_hour)


_BILLED = (
    attempt.c.state == AttemptState.KNOWN.value,
    attempt.c.billing_started_at.is_not(None),
    attempt.c.billing_ended_at.is_(None),
    lease.c.attempts_count == attempt.c.n,
    lease.c.rate_since < func.now(),
)


_PLACE = ("account", "region", "zone", "instance_type", "market")
_AT_OFFERING = attempt.join(lease, lease.c.id == attempt.c.lease_id).join(
    offering, and_(*(offering.c[name] == attempt.c[name] for name in _PLACE))
)


def due(account: str, region: str, markets: Iterable[str]) -> AnySelect:
    """(attempt_id, lease_id) of billed attempts whose price is not the live price of their offering."""
    return (
        select(attempt.c.id.label("attempt_id"), attempt.c.lease_id)
        .select_from(_AT_OFFERING)
        .where(
            attempt.c.account == account,
            attempt.c.region == region,
            attempt.c.market.in_(sorted(markets)),
            offering.c.price_live,
            offering.c.price_per_hour != _current(),
            *_BILLED,
        )
        .order_by(attempt.c.lease_id)
    )


def billed(attempt_id: AttemptId) -> AnySelect:
    """What a change needs to know, while the attempt is billed: the lease's rate and since when, prices, and `now`.

    `price_per_hour`: of compute, at present. `new_price`: the live price of the offering, with its source.
    """
    return (
        select(
            attempt.c.tenant_id,
            attempt.c.n,
            _current().label("price_per_hour"),
            attempt.c.disk_price_per_hour,
            attempt.c.address_price_per_hour,
            lease.c.rate_per_hour,
            lease.c.rate_since,
            offering.c.price_per_hour.label("new_price"),
            offering.c.price_source.label("new_source"),
            func.now().label("now"),
        )
        .select_from(_AT_OFFERING)
        .where(attempt.c.id == attempt_id, offering.c.price_live, *_BILLED)
    )


def record(*, attempt_id: AttemptId, tenant_id: str, starts_at: datetime, price: Decimal, source: str) -> Insert:
    """Adds the change: from `starts_at` on, compute costs `price` USD an hour."""
    values = {
        "attempt_id": attempt_id,
        "tenant_id": tenant_id,
        "starts_at": starts_at,
        "price_per_hour": price,
        "price_source": source,
    }
    return insert(attempt_price).values(values)


def close_past(attempt_id: AttemptId, cost: Decimal) -> Update:
    """Adds what the price until now has cost. `begin_rate` adds the same to the lease."""
    past = attempt.c.cost_of_past_prices + cost
    return update(attempt).where(attempt.c.id == attempt_id).values(cost_of_past_prices=past)


def begin_rate(lease_id: LeaseId, event: NewEvent, *, cost: Decimal, rate: Rate) -> Bound[AnyInsert]:
    """The lease is billed at `rate` from now on. `cost`: USD at the rate until now."""
    values = {"rate_per_hour": rate.total, "placement": _REPRICED, **_FROM_NOW, **WAKE}
    bindings = {"rate": rate.total, "cost": cost, "prices": rate.as_json()}
    return write(lease_id, event, bindings=bindings, values=values)
