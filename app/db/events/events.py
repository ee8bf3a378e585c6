"""Events: each is appended together with the change that it reports, and numbered after commit."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, BigInteger, ColumnElement, Executable, Text, Update, bindparam, or_, select, text, update
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Json
from app.db.schema import cluster
from app.db.schema.tables import event, installation
from app.domain.event_parts import EventData
from app.domain.ids import TenantId

_Value = ColumnElement[Any]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. `data` is visible to the tenant's viewers. It contains no provider messages."""

    data: EventData
    request_id: str | None = None

    @property
    def type(self) -> str:
        """The type, such as lease.active: `data` belongs to it."""
        return str(self.data.type)


def append_to_leases(changed: CTE) -> Insert:
    """Appends an event for the row of `changed` (columns id, tenant_id, events_count), in the statement of the change.

    Its parameters come from `told`.
    """
    event_id = bindparam("event_id", type_=Text)
    about = (bindparam("event_data", type_=Json), bindparam("event_request_id", type_=Text))
    return _append(changed, event_id, *about)


def append_each(changed: CTE) -> Insert:
    """As `append_to_leases`, for several rows of `changed`, which also has the columns event_id, event_data and event_request_id.

    The parameter event_type applies to all.
    """
    return _append(changed, changed.c.event_id, changed.c.event_data, changed.c.event_request_id)


def _append(changed: CTE, event_id: _Value, data: _Value, request_id: _Value) -> Insert:
    lease = (changed.c.tenant_id, changed.c.id, changed.c.events_count)
    values = select(event_id, *lease, bindparam("event_type", type_=Text), data, request_id)
    columns = ["id", "tenant_id", "lease_id", "lease_sequence", "type", "data", "request_id"]
    return insert(event).from_select(columns, values).add_cte(changed)


def event_parameters(new: NewEvent) -> dict[str, Any]:
    """The parameters of `append_to_leases` for `new`."""
    return {
        "event_id": new_id("event"),
        "event_type": new.type,
        "event_data": new.data.as_json(),
        "event_request_id": new.request_id,
    }


def append(tenant_id: TenantId, new: NewEvent) -> Insert:
    """An event that belongs to no lease."""
    values = {"type": new.type, "data": new.data.as_json(), "request_id": new.request_id}
    return insert(event).values(id=new_id("event"), tenant_id=tenant_id, **values)


LOCK_COUNTER: Bound[AnySelect] = Bound(
    select(installation.c.event_sequence)
    .where(or_(cluster.IS_KNOWN, installation.c.hold.is_not(None)))
    .with_for_update(skip_locked=True),
    {},
)
"""First statement of the sequencer. Returns no row while another sequencer is at work, and after a restore until the
hold is set, which moves the counter above all numbers given before."""

_NUMBER = text(
    """
    WITH fresh AS (
        SELECT row_id, row_number() OVER (ORDER BY row_id) AS k
        FROM event WHERE sequence IS NULL ORDER BY row_id LIMIT :batch)
    UPDATE event SET sequence = :base + fresh.k FROM fresh WHERE event.row_id = fresh.row_id
    """
)


def number_new(base: int, batch: int) -> Bound[Executable]:
    """Second statement: assigns numbers after `base` to up to `batch` committed events.

    Its row count is the argument of `move_counter`.
    """
    return Bound(_NUMBER, {"base": base, "batch": batch})


_MOVE_COUNTER = update(installation).values(
    event_sequence=installation.c.event_sequence + bindparam("by", type_=BigInteger)
)


def move_counter(by: int) -> Bound[Update]:
    """Third statement, in the same transaction. Readers see the numbers only with the counter, in order."""
    return Bound(_MOVE_COUNTER, {"by": by})


ANY_UNNUMBERED: Bound[AnySelect] = Bound(select(event.c.row_id).where(event.c.sequence.is_(None)).limit(1), {})
"""Returns a row when there is work. This inexpensive query saves an idle sequencer its transaction."""
