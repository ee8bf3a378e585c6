"""Launches of the last hour by outcome, in each region of each account."""

from sqlalchemy import (
    ColumnElement,
    Interval,
    Text,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by

from app.db.schema.tables import attempt
from app.domain.error_kinds import ErrorKind
from app.domain.leases import LIVE_ATTEMPT, AttemptState

SUCCEEDED = "succeeded"
_HOUR = literal_column("interval '1 hour'", Interval)


def _is_recent(time: ColumnElement[object]) -> ColumnElement[bool]:
    return time > func.now() - _HOUR


_PLACE = (attempt.c.provider, attempt.c.account, attempt.c.region)
_LIVE = attempt.c.state.in_([literal_column(f"'{state}'") for state in sorted(LIVE_ATTEMPT)])
"""Its states are literals, so that the partial indexes on live attempts apply."""
_IS_REFUSED = attempt.c.state == str(AttemptState.REFUSED)
_OUTCOME = case(
    (attempt.c.known_at.is_not(None), literal(SUCCEEDED, Text)),
    (_IS_REFUSED, func.coalesce(attempt.c.error["class"].astext, str(ErrorKind.REFUSED))),
    else_=literal(str(ErrorKind.OUTCOME_UNKNOWN), Text),
)
"""Whether there was a VM, else the class of the error. A create call whose VM was never found has an unknown outcome."""

_TRIED = union_all(
    select(*_PLACE, attempt.c.known_at.label("at"), literal(SUCCEEDED, Text).label("outcome"), attempt.c.error).where(
        _LIVE, _is_recent(attempt.c.known_at)
    ),
    select(
        *_PLACE,
        func.coalesce(attempt.c.known_at, attempt.c.ended_at).label("at"),
        _OUTCOME.label("outcome"),
        attempt.c.error,
    ).where(
        _is_recent(attempt.c.ended_at),
        or_(
            _is_recent(attempt.c.known_at),
            and_(attempt.c.known_at.is_(None), or_(_IS_REFUSED, attempt.c.first_sent_at.is_not(None))),
        ),
    ),
).subquery("tried")
_LAST_SUCCESS = func.max(_TRIED.c.at).filter(_TRIED.c.outcome == SUCCEEDED)
_RANKED = select(
    _TRIED, _LAST_SUCCESS.over(partition_by=(_TRIED.c.account, _TRIED.c.region)).label("succeeded_at")
).subquery("ranked")
_SINCE_THEN = and_(
    _RANKED.c.outcome != SUCCEEDED, or_(_RANKED.c.succeeded_at.is_(None), _RANKED.c.at > _RANKED.c.succeeded_at)
)
_GROUP = (_RANKED.c.provider, _RANKED.c.account, _RANKED.c.region, _RANKED.c.outcome)

_ERRORS = func.jsonb_agg(aggregate_order_by(_RANKED.c.error, _RANKED.c.at.desc()), type_=JSONB).filter(_SINCE_THEN)

LAUNCHES = select(
    *_GROUP,
    func.count().label("launches"),
    func.count().filter(_SINCE_THEN).label("in_a_row"),
    func.min(_RANKED.c.at).filter(_SINCE_THEN).label("since"),
    _ERRORS[0].label("error"),
).group_by(*_GROUP)
"""Launches by outcome: SUCCEEDED, or the class of the error.

`in_a_row`: those since the last success in the region. The first of them was at `since`, and the newest one gave `error`.
"""
