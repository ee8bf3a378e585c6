"""What launches teach about offerings: which refuse just now, how often each gave a VM, and how soon it was ready."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal_column,
    null,
    text,
    tuple_,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import Time
from app.db.schema.tables import offering, reservation
from app.domain.cool_off import FORGEABLE, CoolOffPause
from app.domain.offerings import OfferingKey

_COOL_OFF_DOUBLINGS = 5
_REMEMBERED = 32
"""The most tries of an offering that count in full. Beyond it all counts are halved, so that new tries weigh more than old ones."""


class _Statements(NamedTuple):
    """What is written about one row of the table `offering` or `reservation`."""

    key: Sequence[str]
    cool_off: Update
    suspect: Update
    launched: Update
    became_ready: Update


_SECONDS = bindparam("seconds", type_=Float)
_SECOND = text("interval '1 second'")


def _statements(table: Table) -> _Statements:
    keys = tuple(table.primary_key)
    at = tuple(bindparam(f"at_{column.name}", type_=Text) for column in keys)
    row = update(table).where(tuple_(*keys) == tuple_(*at))
    return _Statements(
        key=[name.key for name in at],
        cool_off=row.values(_cool_off(table)),
        suspect=row.values(_suspicion(table)),
        launched=row.values(
            **_no_cool_off_since(table),
            launches=_remembered(table, table.c.launches) + bindparam("times", type_=Integer),
            refusals=_remembered(table, table.c.refusals),
        ),
        became_ready=row.values(ready_seconds=func.coalesce(table.c.ready_seconds * 0.8 + _SECONDS * 0.2, _SECONDS)),
    )


def _no_cool_off_since(table: Table) -> dict[str, ColumnElement[Any]]:
    """A VM that was requested before the last refusal does not show that the refusal is over."""
    refused_since = table.c.refused_at >= bindparam("sent_at", type_=Time)
    free = {"cool_until": null(), "cool_reason": null(), "cool_code": null(), "cool_count": literal_column("0")}
    return {name: case((refused_since, table.c[name]), else_=value) for name, value in free.items()}


def _remembered(table: Table, count: ColumnElement[int]) -> ColumnElement[int]:
    return case((table.c.launches + table.c.refusals >= _REMEMBERED, count // 2), else_=count)


def _cool_off(table: Table) -> dict[str, ColumnElement[Any]]:
    cooling = func.coalesce(table.c.cool_until > func.now(), false())
    times = table.c.cool_count - case((cooling, 1), else_=0)
    doubling = func.power(2, func.greatest(0, func.least(times, _COOL_OFF_DOUBLINGS)))
    pause = func.least(bindparam("seconds", type_=Float) * doubling, bindparam("longest", type_=Float))
    return {
        "cool_until": func.now() + pause * _SECOND,
        "cool_reason": bindparam("why", type_=Text),
        "cool_code": bindparam("code", type_=Text),
        "cool_count": times + 1,
        "refused_at": func.now(),
        "launches": _remembered(table, table.c.launches),
        "refusals": _remembered(table, table.c.refusals) + 1,
    }


def _suspicion(table: Table) -> dict[str, ColumnElement[Any]]:
    """The word of one tenant. It cools the offering off when another tenant's word is not older than the longest pause."""
    tenant = bindparam("tenant_id", type_=Text)
    before = table.c.suspicion
    recent = cast(before["until"].astext, Time) > func.now() - bindparam("longest", type_=Float) * _SECOND
    seconded = and_(before["tenant_id"].astext != tenant, recent)
    facts = {"tenant_id": tenant, "reason": bindparam("why", type_=Text), "code": bindparam("code", type_=Text)}
    pairs = [part for name, value in facts.items() for part in (literal_column(f"'{name}'"), value)]
    until = (literal_column("'until'"), func.now() + bindparam("seconds", type_=Float) * _SECOND)
    return {
        "suspicion": func.jsonb_build_object(*pairs, *until),
        **{name: case((seconded, value), else_=table.c[name]) for name, value in _cool_off(table).items()},
    }


_OFFERING, _RESERVATION = _statements(offering), _statements(reservation)


def _of(key: OfferingKey) -> tuple[_Statements, dict[str, Any]]:
    """The statements for an offering, and the parameters that name its row."""
    if key.reservation is not None:
        return _RESERVATION, dict(zip(_RESERVATION.key, (key.account, key.reservation), strict=True))
    values = (key.account, key.region, key.zone, key.instance_type, str(key.market))
    return _OFFERING, dict(zip(_OFFERING.key, values, strict=True))


def cool_off(key: OfferingKey, pause: CoolOffPause, *, code: str | None, tenant_id: str | None = None) -> Bound[Update]:
    """The offering refused: set it aside for `pause.seconds`, twice as long each time in a row, at most `pause.longest`.

    Refusals while it is set aside, of leases that asked at the same time, are one and the same time. A FORGEABLE reason is
    the word of `tenant_id`, whose VM it was: it sets the offering aside for that tenant alone. It does so for all
    tenants once VMs of two of them have said so, no more than `pause.longest` apart.
    """
    statements, here = _of(key)
    parameters = {"seconds": pause.seconds, "longest": pause.longest, "why": str(pause.reason), "code": code}
    if pause.reason not in FORGEABLE:
        return Bound(statements.cool_off, {**here, **parameters})
    if tenant_id is None:
        raise ValueError(f"{pause.reason} is the word of one tenant: name it")
    return Bound(statements.suspect, {**here, **parameters, "tenant_id": tenant_id})


def launched(key: OfferingKey, times: int = 1, *, sent_at: datetime | None) -> Bound[Update]:
    """The offering gave so many VMs that run, the newest of a create call of `sent_at`. None: the time is unknown.

    The cool-off of an earlier refusal is over.
    """
    statements, here = _of(key)
    return Bound(statements.launched, {**here, "times": times, "sent_at": sent_at})


def became_ready(key: OfferingKey, seconds: float) -> Bound[Update]:
    """Learns an offering's launch-to-ready time: a moving average, the newest counting a fifth."""
    statements, here = _of(key)
    return Bound(statements.became_ready, {**here, "seconds": seconds})
