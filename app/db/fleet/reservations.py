"""Statements on reservations: what their provider reported, the slots that are free, and the leases in them.

A slot is in use from the moment that an attempt is stored until the attempt is closed. The provider's number of free
VMs is older than the newest attempts, so those that it cannot contain yet are subtracted from it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    Update,
    and_,
    bindparam,
    cast,
    delete,
    func,
    literal,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.fleet.offerings import shared_facts, with_account
from app.db.schema.tables import attempt, lease, reservation
from app.domain.leases import LIVE_ATTEMPT
from app.domain.offerings import Market, Offering, OfferingKey
from app.domain.reservations import ENDING_MARGIN, Reservation

_KEY = (reservation.c.account, reservation.c.name)
_STATISTICS = frozenset(
    {
        "cool_until",
        "cool_reason",
        "cool_code",
        "cool_count",
        "refused_at",
        "suspicion",
        "launches",
        "refusals",
        "ready_seconds",
    }
)


def save_reservations() -> Insert:
    """Adds or refreshes reservations, one set of parameters each: all columns but the statistics, which stay."""
    columns = [column.name for column in reservation.c if column.name not in _STATISTICS]
    statement = insert(reservation).values({name: bindparam(name, type_=reservation.c[name].type) for name in columns})
    changes = {name: statement.excluded[name] for name in columns}
    return statement.on_conflict_do_update(index_elements=list(_KEY), set_=changes)


def forget_others(account: str, region: str, types: Mapping[str, str]) -> Delete:
    """Deletes the reservations of a region that are no longer configured. `types`: the instance types by name."""
    configured = tuple_(reservation.c.name, reservation.c.instance_type).in_(list(types.items()))
    return delete(reservation).where(reservation.c.account == account, reservation.c.region == region, not_(configured))


def _in_use(*where: ColumnElement[bool]) -> Any:
    here = (attempt.c.account == reservation.c.account, attempt.c.reservation == reservation.c.name)
    live = attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
    return select(func.count()).where(*here, live, *where).correlate(reservation).scalar_subquery()


def _free_now() -> ColumnElement[int | None]:
    """VMs that can still be placed; NULL: no fixed number. `least` ignores NULL."""
    unreported = or_(attempt.c.known_at.is_(None), attempt.c.known_at >= reservation.c.observed_at)
    return func.least(reservation.c.free - _in_use(unreported), reservation.c.slots - _in_use())


_CANDIDATES = with_account(reservation).add_columns(_free_now().label("free_now")).order_by(*_KEY)


def candidates() -> Bound[AnySelect]:
    """Every reservation with its account's state and `free_now`, in the order of the keys. See `reserved_offering`."""
    return Bound(_CANDIDATES, {})


def reserved_offering(row: Any) -> Offering:
    """The offering of a row of `candidates`. Its price is the operator's own."""
    key = OfferingKey(
        account=row.account,
        region=row.region,
        zone=row.zone,
        instance_type=row.instance_type,
        market=Market.RESERVED,
        reservation=row.name,
    )
    return Offering(
        key=key,
        price_as_of=row.observed_at,
        price_source="reservation",
        reservation=reservation_from_row(row, free=row.free_now),
        **shared_facts(row),
    )


def reservation_from_row(row: Any, *, free: int | None) -> Reservation:
    """The domain's view of a row."""
    return Reservation(
        name=row.name,
        kind=row.kind,
        tenants=frozenset(row.tenants),
        slots=row.slots,
        free=free if free is None else max(0, free),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        shortest_wait=row.shortest_wait,
        longest_run=row.longest_run,
        problem=row.problem,
    )


def lock(account: str, name: str) -> AnySelect:
    """Locks a reservation until the transaction ends: attempts in it are stored one after the other."""
    return (
        select(reservation.c.name).where(reservation.c.account == account, reservation.c.name == name).with_for_update()
    )


def read(account: str, name: str) -> AnySelect:
    """The reservation with `free_now`. Read it after `lock`, by a statement of its own, so that it counts every attempt."""
    return select(reservation, _free_now().label("free_now")).where(
        reservation.c.account == account, reservation.c.name == name
    )


def _ended_earlier(account: str, name: str, until: datetime) -> tuple[ColumnElement[bool], ...]:
    live = attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
    return attempt.c.account == account, attempt.c.reservation == name, live, attempt.c.reserved_until > until


def shorten_leases(account: str, name: str, ends_at: datetime) -> Update:
    """The reservation ends earlier than leases in it assume: shows that on them and wakes them.

    Follow it with `shorten_attempts` in the same transaction. The leases end in time by themselves.
    """
    until = ends_at - ENDING_MARGIN
    until_json = {"reserved_until": until.isoformat().replace("+00:00", "Z")}
    placement = lease.c.placement.concat(cast(until_json, JSONB))
    return (
        update(lease)
        .where(attempt.c.lease_id == lease.c.id, *_ended_earlier(account, name, until), lease.c.placement.is_not(None))
        .values(
            placement=placement, next_due=func.now(), wake_count=lease.c.wake_count + 1, version=lease.c.version + 1
        )
    )


def shorten_attempts(account: str, name: str, ends_at: datetime) -> Update:
    """The attempts of `shorten_leases`: their leases end before `ends_at`."""
    until = ends_at - ENDING_MARGIN
    return (
        update(attempt)
        .where(and_(*_ended_earlier(account, name, until)))
        .values(reserved_until=literal(until, Time))
        .returning(attempt.c.lease_id)
    )
