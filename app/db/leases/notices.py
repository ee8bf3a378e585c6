"""Events that are caused by time or by use, not by a change. Each is recorded once."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Interval,
    TextClause,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Json, Time, by_turns
from app.db.events.events import NewEvent
from app.db.leases.billing import accrued, ends_at
from app.db.leases.transitions import write
from app.db.schema.tables import lease
from app.domain.events import LeaseCapNear, LeaseExpiringSoon
from app.domain.ids import LeaseId

_ENDS_AT = func.least(lease.c.expires_at, lease.c.cost_reached_at)
_RUNS = (lease.c.state.not_in(["released", "failed", "releasing"]), lease.c.desired == "run")
_TOLD = case(
    (lease.c.expiry_told_for >= _ENDS_AT, lease.c.expiry_told_seconds),
    else_=literal_column("86401"),
)
"""Only shorter warnings are still due."""


def _warning() -> Any:
    """The shortest warning whose time has come. After an outage, one event replaces several."""
    listed = func.coalesce(lease.c.expiry_warnings, bindparam("defaults", type_=Json))
    each = func.jsonb_array_elements_text(listed).table_valued("value", name="warning")
    seconds = cast(each.c.value, Integer)
    remaining = func.extract("epoch", _ENDS_AT - func.now())
    term = func.extract("epoch", _ENDS_AT - lease.c.created_at)
    chosen = select(func.min(seconds).label("seconds")).where(seconds >= remaining, seconds < term, seconds < _TOLD)
    return chosen.lateral("due")


_EXPIRING_DUE = _warning()
_EXPIRING = by_turns(
    select(lease.c.id, lease.c.tenant_id, lease.c.expires_at, _ENDS_AT.label("ends_at"), _EXPIRING_DUE.c.seconds)
    .select_from(lease.join(_EXPIRING_DUE, true()))
    .where(lease.c.state.not_in(["failed", "released"]), *_RUNS, _EXPIRING_DUE.c.seconds.is_not(None))
    .where(
        or_(
            lease.c.expires_at <= func.now() + bindparam("longest", type_=Interval),
            lease.c.cost_reached_at <= func.now() + bindparam("longest", type_=Interval),
            lease.c.expiry_warnings.is_not(None),
        )
    ),
    first="ends_at",
    limit=bindparam("most", type_=Integer),
)
_SAME = bindparam("shown_at", type_=Time) == _ENDS_AT
_UNTOLD = bindparam("shown_seconds", type_=Integer) < _TOLD


def expiring(warnings: Sequence[int], limit: int) -> Bound[AnySelect]:
    """(id, tenant_id, expires_at, ends_at, seconds) of leases with a due warning. Tenants take turns, each with its earliest end.

    `warnings`: seconds before the end, for leases without their own. A lease that is shorter than a warning never gets
    that warning.
    """
    longest = timedelta(seconds=max(warnings, default=0))
    return Bound(_EXPIRING, {"defaults": list(warnings), "longest": longest, "most": limit})


def tell_expiring(lease_id: LeaseId, event: LeaseExpiringSoon) -> Bound[AnyInsert]:
    """Records one warning, once for each end. After an extension, the owner gets the warnings before the new end."""
    return write(
        lease_id,
        NewEvent(event),
        where=[*_RUNS, _SAME, _UNTOLD],
        bindings={"shown_at": event.ends_at, "shown_seconds": event.seconds},
        values={"expiry_told_for": event.ends_at, "expiry_told_seconds": event.seconds},
    )


_EXTENDED_TO = bindparam("until", type_=Time)
_NEW_END = func.least(_EXTENDED_TO, lease.c.cost_reached_at)
_MOVED = _NEW_END > _ENDS_AT
EXTENDED = {
    "expiry_told_for": case((_MOVED, _NEW_END), else_=lease.c.expiry_told_for),
    "expiry_told_seconds": case(
        (_MOVED, cast(func.ceil(func.extract("epoch", _NEW_END - func.now())), Integer)),
        else_=lease.c.expiry_told_seconds,
    ),
}
"""Values of an extension to `until`: warnings that were due before it are not sent for the new end.

Where the spend cap is first, the end stays, and so do the warnings of it.
"""


_CAP_SHARE: ColumnElement[Any] = literal_column("0.8")
_SPENT = accrued(lease, func.now())
_CAP_NEAR = (lease.c.max_cost.is_not(None), not_(lease.c.cap_told), lease.c.max_cost * _CAP_SHARE <= _SPENT)


def near_cap(limit: int) -> AnySelect:
    """(id, tenant_id, max_cost, accrued, ends_at) of leases that have cost 80 % of their cap and whose owners have had no notice.

    Tenants take turns.
    """
    spent, end = _SPENT.label("accrued"), ends_at(lease).label("ends_at")
    query = select(lease.c.id, lease.c.tenant_id, lease.c.max_cost, spent, end)
    return by_turns(
        query.where(lease.c.state.not_in(["failed", "released"]), *_RUNS, *_CAP_NEAR), first="id", limit=limit
    )


def tell_cap_near(lease_id: LeaseId, data: LeaseCapNear) -> Bound[AnyInsert]:
    """Records one notice for each cap."""
    return write(lease_id, NewEvent(data), where=[*_RUNS, *_CAP_NEAR], values={"cap_told": True})


def owners(lease_ids: Iterable[str]) -> AnySelect:
    """(id, tenant_id) of leases."""
    return select(lease.c.id, lease.c.tenant_id).where(lease.c.id.in_(sorted(lease_ids)))


# These statements skip rows that another transaction has locked, until the next run. They never wait for a lock while
# they hold others, so they block nobody.
_IS_NEARLY_USED = """NOT nearly_told AND "limit" > 0 AND used >= 0.9 * "limit" AND resource NOT LIKE 'budget:%'"""
NEARLY_USED = text(f"SELECT DISTINCT tenant_id FROM quota WHERE {_IS_NEARLY_USED} ORDER BY tenant_id")
"""(tenant_id) of tenants with quotas of which nine tenths are used."""
_MARK_NEARLY_USED = text(
    f"""
    WITH found AS (
        SELECT tenant_id, resource FROM quota WHERE tenant_id = :tenant_id AND {_IS_NEARLY_USED}
        ORDER BY tenant_id, resource FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE quota q SET nearly_told = true FROM found
    WHERE q.tenant_id = found.tenant_id AND q.resource = found.resource
    RETURNING q.tenant_id, q.resource, q."limit", q.used
    """
)


def mark_nearly_used(tenant_id: str) -> Bound[TextClause]:
    """Marks a tenant's quotas of which nine tenths are used. The caller records their notices in the same transaction."""
    return Bound(_MARK_NEARLY_USED, {"tenant_id": tenant_id})


USED_LESS = text(
    """
    WITH found AS (
        SELECT tenant_id, resource FROM quota
        WHERE nearly_told AND ("limit" IS NULL OR used < 0.8 * "limit")
        ORDER BY tenant_id, resource FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE quota q SET nearly_told = false FROM found
    WHERE q.tenant_id = found.tenant_id AND q.resource = found.resource
    """
)
"""Below eight tenths, a new notice is allowed."""
