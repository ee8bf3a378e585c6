"""What prevents a lease from ending, as recorded in the message of its reason."""

from datetime import timedelta

from sqlalchemy import Interval, Text, bindparam, func, literal_column

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert
from app.db.events.events import NewEvent
from app.db.leases.transitions import write
from app.db.schema.tables import lease
from app.domain.events import LeaseReleaseBlocked
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.reasons import BLOCKED

_MESSAGE = lease.c.reason["message"].astext
_BLOCKED_MESSAGE = func.split_part(_MESSAGE, BLOCKED, 1).concat(bindparam("obstacle", type_=Text))
_BLOCKED_REASON = func.jsonb_set(lease.c.reason, literal_column("'{message}'"), func.to_jsonb(_BLOCKED_MESSAGE))

_RELEASING = lease.c.state == str(LeaseState.RELEASING)
_LONG_ENOUGH = lease.c.release_requested_at <= func.now() - bindparam("patience", type_=Interval)
_NEWS = _MESSAGE.is_distinct_from(_BLOCKED_MESSAGE)


def blocked(lease_id: LeaseId, obstacle: str, *, after_seconds: float = 0.0) -> Bound[AnyInsert]:
    """Writes an obstacle into the reason of a lease that has been releasing for `after_seconds`, with an event.

    Returns no row when the reason names that obstacle already. An obstacle is a fact, so no claim is required.
    """
    return write(
        lease_id,
        NewEvent(LeaseReleaseBlocked(obstacle=obstacle)),
        where=[_RELEASING, _LONG_ENOUGH, _NEWS],
        bindings={"obstacle": f"{BLOCKED}{obstacle}", "patience": timedelta(seconds=after_seconds)},
        values={"reason": _BLOCKED_REASON},
    )
