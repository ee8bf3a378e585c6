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
    bindparam,
    case,
    false,
    func,
    literal_column,
    null,
    text,
    tuple_,
    update,
)

from app.db.core.column_types import Time
from app.db.core.prepared import Bound
from app.db.schema.tables import offering, reservation
from app.domain.cool_off import CoolOffPause
from app.domain.offerings import OfferingKey

_COOL_OFF_DOUBLINGS = 5
_REMEMBERED = 32
"""So many tries of an offering are remembered in full; then they count half, and new ones tell more than old ones."""


class _Statements(NamedTuple):
    """What is written about one row of the table `offering` or `reservation`."""

    key: Sequence[str]
    cool_off: Update
    launched: Update
    became_ready: Update


_SECONDS = bindparam("seconds", type_=Float)


def _statements(table: Table) -> _Statements:
    keys = tuple(table.primary_key)
    at = tuple(bindparam(f"at_{column.name}", type_=Text) for column in keys)
    row = update(table).where(tuple_(*keys) == tuple_(*at))
    return _Statements(
        key=[name.key for name in at],
        cool_off=_cool_off(table, row),
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


def _cool_off(table: Table, row: Update) -> Update:
    cooling = func.coalesce(table.c.cool_until > func.now(), false())
    times = table.c.cool_count - case((cooling, 1), else_=0)
    doubling = func.power(2, func.greatest(0, func.least(times, _COOL_OFF_DOUBLINGS)))
    pause = func.least(bindparam("seconds", type_=Float) * doubling, bindparam("longest", type_=Float))
    return row.values(
        cool_until=func.now() + pause * text("interval '1 second'"),
        cool_reason=bindparam("why", type_=Text),
        cool_code=bindparam("code", type_=Text),
        cool_count=times + 1,
        refused_at=func.now(),
        launches=_remembered(table, table.c.launches),
        refusals=_remembered(table, table.c.refusals) + 1,
    )


_OFFERING, _RESERVATION = _statements(offering), _statements(reservation)


def _of(key: OfferingKey) -> tuple[_Statements, dict[str, Any]]:
    """The statements for an offering, and the parameters that name its row."""
    if key.reservation is not None:
        return _RESERVATION, dict(zip(_RESERVATION.key, (key.account, key.reservation), strict=True))
    values = (key.account, key.region, key.zone, key.instance_type, str(key.market))
    return _OFFERING, dict(zip(_OFFERING.key, values, strict=True))


def cool_off(key: OfferingKey, pause: CoolOffPause, *, code: str | None) -> Bound[Update]:
    """The offering refused: set it aside for `pause.seconds`, twice as long each time in a row, at most `pause.longest`.

    Refusals while it is set aside, of leases that asked at the same time, are one and the same time.
    """
    statements, here = _of(key)
    given = {"seconds": pause.seconds, "longest": pause.longest, "why": str(pause.reason), "code": code}
    return Bound(statements.cool_off, {**here, **given})


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
