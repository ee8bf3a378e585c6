"""What launches teach about offerings: which refuse just now, how often each gave a VM, and how soon it was ready."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Text,
    Update,
    bindparam,
    case,
    false,
    func,
    text,
    tuple_,
    update,
)

from app.db.core.prepared import Bound
from app.db.schema.tables import offering
from app.domain.cool_off import CoolOffPause
from app.domain.offerings import OfferingKey

_COOL_OFF_DOUBLINGS = 5
_REMEMBERED = 32
"""So many tries of an offering are remembered in full; then they count half, and new ones tell more than old ones."""

_KEY = tuple(offering.primary_key)
_AT = tuple(bindparam(f"at_{column.name}", type_=Text) for column in _KEY)
_HERE = tuple_(*_KEY) == tuple_(*_AT)


def _here(key: OfferingKey) -> dict[str, Any]:
    values = (key.account, key.region, key.zone, key.instance_type, str(key.market))
    return {name.key: value for name, value in zip(_AT, values, strict=True)}


def _remembered(count: ColumnElement[int]) -> ColumnElement[int]:
    return case((offering.c.launches + offering.c.refusals >= _REMEMBERED, count // 2), else_=count)


def _cool_off() -> Update:
    cooling = func.coalesce(offering.c.cool_until > func.now(), false())
    times = offering.c.cool_count - case((cooling, 1), else_=0)
    doubling = func.power(2, func.greatest(0, func.least(times, _COOL_OFF_DOUBLINGS)))
    pause = func.least(bindparam("seconds", type_=Float) * doubling, bindparam("longest", type_=Float))
    return (
        update(offering)
        .where(_HERE)
        .values(
            cool_until=func.now() + pause * text("interval '1 second'"),
            cool_reason=bindparam("why", type_=Text),
            cool_code=bindparam("code", type_=Text),
            cool_count=times + 1,
            launches=_remembered(offering.c.launches),
            refusals=_remembered(offering.c.refusals) + 1,
        )
    )


_COOL_OFF = _cool_off()


def cool_off(key: OfferingKey, pause: CoolOffPause, *, code: str | None) -> Bound[Update]:
    """The offering refused: set it aside for `pause.seconds`, twice as long each time in a row, at most `pause.longest`.

    Refusals while it is set aside, of leases that asked at the same time, are one and the same time.
    """
    given = {"seconds": pause.seconds, "longest": pause.longest, "why": str(pause.reason), "code": code}
    return Bound(_COOL_OFF, {**_here(key), **given})


_LAUNCHED = (
    update(offering)
    .where(_HERE)
    .values(
        cool_until=None,
        cool_reason=None,
        cool_code=None,
        cool_count=0,
        launches=_remembered(offering.c.launches) + 1,
        refusals=_remembered(offering.c.refusals),
    )
)


def launched(key: OfferingKey) -> Bound[Update]:
    """The offering gave a VM that runs: its cool-off is over."""
    return Bound(_LAUNCHED, _here(key))


_SECONDS = bindparam("seconds", type_=Float)
_BECAME_READY = (
    update(offering)
    .where(_HERE)
    .values(ready_seconds=func.coalesce(offering.c.ready_seconds * 0.8 + _SECONDS * 0.2, _SECONDS))
)


def became_ready(key: OfferingKey, seconds: float) -> Bound[Update]:
    """Learns an offering's launch-to-ready time: a moving average, the newest counting a fifth."""
    return Bound(_BECAME_READY, {**_here(key), "seconds": seconds})
