"""Idleness in SQL: the effective rule as `app.domain.idleness` has it, due notices, and the guard of an end.

The newest samples are in `gpu_latest`. No statement locks them together with their lease.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Interval,
    Update,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    not_,
    or_,
    select,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Time, by_turns
from app.db.events.events import NewEvent
from app.db.leases.transitions import WAKE, write
from app.db.schema.tables import gpu_latest, lease, tenant
from app.domain.idleness import LAST_NOTICE, LAST_WARNING, STALE_AFTER, IdleFloor, Idleness, effective_rule
from app.domain.ids import LeaseId
from app.domain.lease_requests import IdleAction, IdleRule
from app.domain.leases import TERMINAL

_ZERO, _LAST_NOTICE = literal_column("0", Integer), literal_column(str(LAST_NOTICE), Integer)
_ONE = literal_column("1", Integer)
_SECOND: ColumnElement[Any] = literal_column("interval '1 second'")
_END: ColumnElement[str] = literal_column(f"'{IdleAction.END}'")
_LAST_WARNING: ColumnElement[Any] = literal_column(f"interval '{LAST_WARNING.total_seconds():.0f} seconds'")


def _after(rule: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(rule["after_seconds"].astext, Integer)


def _ending_after(rule: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((rule["action"].astext == _END, _after(rule)))


def ends_after(row: FromClause, floor: ColumnElement[Any]) -> ColumnElement[Any]:
    """Seconds of idle samples after which the lease ends. NULL: it does not. `floor`: that of its tenant."""
    return func.least(_ending_after(row.c.request["idle"]), _ending_after(floor))


def after_seconds(row: FromClause, floor: ColumnElement[Any]) -> ColumnElement[Any]:
    """Seconds of idle samples after which the lease counts as idle. NULL: no rule applies."""
    shortest = func.least(_after(row.c.request["idle"]), _after(floor))
    return func.coalesce(ends_after(row, floor), shortest)


def due_at(row: FromClause, seconds: ColumnElement[Any], since: ColumnElement[Any]) -> ColumnElement[Any]:
    """When the lease counts as idle after so many seconds, if its GPUs stay idle. `greatest` ignores a NULL."""
    after = since + seconds * _SECOND
    return case((after.is_not(None), func.greatest(after, row.c.keep_until)))


RUN_OF_LEASE = and_(gpu_latest.c.lease_id == lease.c.id, gpu_latest.c.idle_since >= lease.c.ready_at)
"""Joins a lease to its run of idle samples. A run that began before the present VM was ready is none."""
FACTS = (
    tenant.c.idle_floor,
    lease.c.keep_until,
    gpu_latest.c.idle_since,
    gpu_latest.c.idle_samples,
    gpu_latest.c.sampled_at,
)
"""What `idleness_from_row` reads besides the request."""


def floor_from_row(row: Any) -> IdleFloor | None:
    """The tenant's floor. `row`: with FACTS."""
    return IdleFloor.from_json(row.idle_floor) if row.idle_floor is not None else None


def idleness_from_row(row: Any, own: IdleRule | None) -> Idleness | None:
    """None: no rule applies, or the newest sample is not idle. `row`: with FACTS. `own`: the lease's own rule."""
    rule = effective_rule(own, floor_from_row(row))
    if rule is None or row.idle_since is None:
        return None
    return Idleness(
        rule=rule,
        since=row.idle_since,
        samples=row.idle_samples,
        sampled_at=row.sampled_at,
        keep_until=row.keep_until,
    )


_RUN_CONTINUES = (
    select(gpu_latest.c.lease_id)
    .where(
        RUN_OF_LEASE,
        gpu_latest.c.idle_since == bindparam("idle_since", type_=Time),
        gpu_latest.c.idle_samples >= bindparam("idle_samples", type_=Integer),
        gpu_latest.c.sampled_at >= func.now() - bindparam("idle_stale", type_=Interval),
    )
    .correlate(lease)
    .exists()
)
_KEPT = bindparam("idle_keep_until", type_=Time)
STILL_IDLE = and_(_RUN_CONTINUES, lease.c.keep_until.is_not_distinct_from(_KEPT))
"""Guard: since the lease was read no busy sample came, no gap, and no keep. `given`: `still_idle`."""


def still_idle(idleness: Idleness, period: float) -> Mapping[str, Any]:
    """Parameters of STILL_IDLE. `period`: seconds between samples."""
    return {
        "idle_since": idleness.since,
        "idle_samples": idleness.samples,
        "idle_stale": _stale(period),
        "idle_keep_until": idleness.keep_until,
    }


def _stale(period: float) -> timedelta:
    return timedelta(seconds=STALE_AFTER * period)


# --- floors ----------------------------------------------------------------------------------

_LIVE = not_(lease.c.state.in_([literal_column(f"'{state}'") for state in sorted(TERMINAL)]))


def lock_live(tenant_id: str) -> AnySelect:
    """Locks the live leases of a tenant. Until the transaction ends, no request can begin or change a `keep` of them."""
    mine = select(lease.c.id).where(lease.c.tenant_id == tenant_id, _LIVE)
    return mine.order_by(lease.c.id).with_for_update(key_share=True)


def bound_keeps(tenant_id: str, most: timedelta) -> Update:
    """No live lease of the tenant is kept for longer than `most` from now. Call it after `lock_live`."""
    longest = func.now() + most
    mine = (lease.c.tenant_id == tenant_id, _LIVE, lease.c.keep_until > longest)
    return update(lease).where(*mine).values(keep_until=longest)


# --- notices ---------------------------------------------------------------------------------

_AFTER = after_seconds(lease, tenant.c.idle_floor)
_DUE_AT = due_at(lease, _AFTER, gpu_latest.c.idle_since)
_ENOUGH = cast(gpu_latest.c.idle_samples, Double) * bindparam("period", type_=Double) >= _AFTER
_NOTICE = case(
    (and_(func.now() >= _DUE_AT, _ENOUGH), _LAST_NOTICE),
    else_=case((func.now() >= _DUE_AT - _AFTER / 2.0 * _SECOND, _ONE), else_=_ZERO)
    + case((func.now() >= _DUE_AT - _LAST_WARNING, _ONE), else_=_ZERO),
)
"""As `Idleness.notice`, of a run whose newest sample is recent."""
_TOLD = case((lease.c.idle_told_for == _DUE_AT, lease.c.idle_told), else_=_ZERO)
_ACTIVE = (lease.c.state == literal_column("'active'"), lease.c.desired == literal_column("'run'"))
_MUST_END = and_(ends_after(lease, tenant.c.idle_floor).is_not(None), _NOTICE == _LAST_NOTICE)
"""Independent of the notices that the lease has had: a notice under a rule that only notifies does not keep it from its end."""
_DUE = by_turns(
    select(
        lease.c.id,
        lease.c.tenant_id,
        lease.c.request["idle"].label("rule"),
        lease.c.gpu_count,
        lease.c.rate_per_hour,
        func.now().label("now"),
        *FACTS,
    )
    .select_from(gpu_latest.join(lease, RUN_OF_LEASE).join(tenant, tenant.c.id == lease.c.tenant_id))
    .where(*_ACTIVE, _AFTER.is_not(None), or_(_NOTICE > _TOLD, _MUST_END))
    .where(gpu_latest.c.sampled_at >= func.now() - bindparam("idle_stale", type_=Interval)),
    first="idle_since",
    limit=bindparam("most", type_=Integer),
)


def due(period: float, limit: int) -> Bound[AnySelect]:
    """Leases with a notice that is due and those that must end. Tenants take turns, each with its longest idle one.

    Columns: id, tenant_id, rule (the lease's own, as JSON), gpu_count, rate_per_hour, now, and FACTS. `period`: seconds between samples.
    """
    return Bound(_DUE, {"period": period, "idle_stale": _stale(period), "most": limit})


_UNTOLD = case(
    (lease.c.idle_told_for == bindparam("idle_due_at", type_=Time), lease.c.idle_told), else_=_ZERO
) < bindparam("idle_notice", type_=Integer)


def tell(
    lease_id: LeaseId, event: NewEvent, idleness: Idleness, notice: int, period: float, evidence: Any = None
) -> Bound[AnyInsert]:
    """Records a notice of a run that is still idle, each once. `evidence`: of a lease that counts as idle."""
    bindings = {"idle_due_at": idleness.due_at, "idle_notice": notice, **still_idle(idleness, period)}
    guards = [*_ACTIVE, _UNTOLD, STILL_IDLE]
    return write(lease_id, event, where=guards, bindings=bindings, values=noticed(idleness, notice, evidence))


def noticed(idleness: Idleness, notice: int, evidence: Any = None) -> dict[str, Any]:
    """Values for `transitions.write`: the notice is recorded."""
    values = {"idle_told": notice, "idle_told_for": idleness.due_at}
    return values if evidence is None else {**values, "idle_evidence": evidence}


_WAKE = update(lease).where(lease.c.id == bindparam("lease"), *_ACTIVE).values(WAKE)


def wake(lease_id: LeaseId) -> Bound[Update]:
    """A worker decides about the lease at once."""
    return Bound(_WAKE, {"lease": lease_id})
