"""The only statements that change a lease's state: guarded UPDATEs that append the event in the same statement."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnClause,
    ColumnElement,
    Text,
    Uuid,
    bindparam,
    column,
    func,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound, Shape, plain, setting, shape
from app.db.core.sql import ROWS, AnyInsert, AnySelect, Json, recordset
from app.db.core.tenant_scope import asking, parameter
from app.db.events.events import NewEvent, append_each, append_to_leases, event_parameters
from app.db.schema.tables import event, lease, lease_group
from app.domain.event_parts import EventReason
from app.domain.events import LeaseReleasing
from app.domain.ids import LeaseId, TenantId
from app.domain.leases import LeaseState, sources
from app.domain.reasons import Reason

NOW = func.now()
"""The database's clock, in values of `write`."""

OWNED = asking(lease.c.tenant_id)
"""Guard: the lease belongs to the requesting tenant. `given`: `tenant_scope.parameter`."""


def write(
    lease_id: LeaseId,
    new: NewEvent,
    *,
    to: LeaseState | None = None,
    claim_id: UUID | None = None,
    where: Iterable[ColumnElement[bool]] = (),
    bindings: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Bound[AnyInsert]:
    """Changes a lease and appends the event. Returns one row (lease_id, lease_sequence), or none when a guard fails.

    A change of state wakes the lease's group. A transaction that changes several leases locks them all first.

    `to` is written only from the states that the transition table allows. `claim_id`: only while this claim holds the
    lease. Decisions of workers always pass it; the API never does.

    The statement is cached by its shape. Guards in `where`, and expressions in `values`, are constants of their module.
    What varies in them is a `bindparam`, named in `bindings`.
    """
    changes = dict(values or {})
    if new.request_id is not None:
        changes["request_id"] = new.request_id
    parameters = {"lease": lease_id, **(bindings or {}), **plain(changes), **event_parameters(new)}
    if claim_id is not None:
        parameters["claim"] = claim_id
    return Bound(_written(to, tuple(where), shape(changes), claimed=claim_id is not None), parameters)


@lru_cache(maxsize=256)
def _written(
    to: LeaseState | None, where: tuple[ColumnElement[bool], ...], columns: Shape, *, claimed: bool
) -> AnyInsert:
    guards = [lease.c.id == bindparam("lease", type_=Text), *where, *_from_sources(to)]
    if claimed:
        guards.append(_is_held(bindparam("claim", type_=Uuid)))
    changed = (
        update(lease)
        .where(*guards)
        .values({**_stamps(to), **setting(lease, columns)})
        .returning(lease.c.id, lease.c.tenant_id, lease.c.events_count, lease.c.group_id)
        .cte("changed")
    )
    told_of = append_to_leases(changed).returning(event.c.lease_id, event.c.lease_sequence)
    return told_of if to is None else told_of.add_cte(_WOKEN)


def _is_held(claim: ColumnElement[UUID]) -> ColumnElement[bool]:
    """This claim holds the lease."""
    return lease.c.claim_id == claim


def _stamps(to: LeaseState | None) -> dict[str, Any]:
    """What every change writes."""
    stamps = {"version": lease.c.version + 1, "events_count": lease.c.events_count + 1, "updated_at": NOW}
    return stamps if to is None else {**stamps, "state": str(to)}


def _from_sources(to: LeaseState | None) -> list[ColumnElement[bool]]:
    return [] if to is None else [lease.c.state.in_([str(state) for state in sources(to)])]


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """A change of one lease among several: its event, and the values that only this lease gets."""

    lease_id: LeaseId
    claim_id: UUID
    event: NewEvent
    values: Mapping[str, Any] = field(default_factory=dict)


def write_each(
    changes: Sequence[LeaseChange],
    *,
    to: LeaseState | None = None,
    where: Iterable[ColumnElement[bool]] = (),
    bindings: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Bound[AnyInsert]:
    """`write` for several leases in one statement, each while its claim holds it.

    `values` are written to all of them, with the parameters `bindings`. Every change has its own values for the same columns.
    Returns a row (lease_id, lease_sequence) for each lease whose guards held. The caller has locked the leases.
    """
    own = tuple(changes[0].values)
    rows = [
        {
            "id": change.lease_id,
            "claim": str(change.claim_id),
            "event_id": event_row["event_id"],
            "event_data": event_row["event_data"],
            "event_request_id": event_row["event_request_id"],
            **{f"new_{name}": change.values[name] for name in own},
        }
        for change, event_row in ((change, event_parameters(change.event)) for change in changes)
    ]
    common = dict(values or {})
    parameters = {ROWS: json.dumps(rows, default=str), "event_type": changes[0].event.type, **(bindings or {})}
    return Bound(_written_each(to, tuple(where), shape(common), own), {**parameters, **plain(common)})


@lru_cache(maxsize=64)
def _written_each(
    to: LeaseState | None, where: tuple[ColumnElement[bool], ...], columns: Shape, own: tuple[str, ...]
) -> AnyInsert:
    fields: list[ColumnClause[Any]] = [
        column("id", Text),
        column("claim", Uuid),
        column("event_id", Text),
        column("event_data", Json),
        column("event_request_id", Text),
        *(column(f"new_{name}", lease.c[name].type) for name in own),
    ]
    row = recordset("own", *fields)
    changed = (
        update(lease)
        .where(lease.c.id == row.c.id, _is_held(row.c.claim), *where, *_from_sources(to))
        .values({**_stamps(to), **setting(lease, columns), **{name: row.c[f"new_{name}"] for name in own}})
        .returning(
            lease.c.id,
            lease.c.tenant_id,
            lease.c.events_count,
            lease.c.group_id,
            *(row.c[name] for name in ("event_id", "event_data", "event_request_id")),
        )
        .cte("changed")
    )
    told_of = append_each(changed).returning(event.c.lease_id, event.c.lease_sequence)
    return told_of if to is None else told_of.add_cte(_WOKEN)


# As text: in an expression, SQLAlchemy would take the statement's parameter `lease` for the column of this name.
_WOKEN = (
    text(
        """
        UPDATE lease_group SET next_due = now() FROM changed
        WHERE lease_group.id = changed.group_id AND lease_group.state <> 'ended' RETURNING lease_group.id
        """
    )
    .columns(lease_group.c.id)
    .cte("woken")
)
"""Makes the group of a changed member due at once."""


_LOCKED = (
    select(lease.c.id)
    .where(lease.c.id == func.any(bindparam("ids", type_=ARRAY(Text))))
    .order_by(lease.c.id)
    .with_for_update(key_share=True)
)


def locked(lease_ids: Iterable[str]) -> Bound[AnySelect]:
    """Locks these leases, in the order of their ids.

    Every writer of attempts locks their leases first, so no deadlock occurs.
    """
    return Bound(_LOCKED, {"ids": list(lease_ids)})


WAKE: Mapping[str, ColumnElement[Any]] = {"next_due": NOW, "wake_count": lease.c.wake_count + 1}
"""Values that make a lease due at once, even when a worker is just about to postpone it."""


def ids_in(tenant_id: TenantId, states: Iterable[LeaseState]) -> AnySelect:
    """Ids of a tenant's leases in these states, in ascending order."""
    in_states = lease.c.state.in_([str(state) for state in states])
    return select(lease.c.id).where(lease.c.tenant_id == tenant_id, in_states).order_by(lease.c.id)


def request_end(
    lease_id: LeaseId, reason: Reason, request_id: str | None, *, within: str | None = None
) -> Bound[AnyInsert]:
    """Requests the end of a lease: `releasing` from any earlier state, once. Returns no row when it ends or has ended.

    `within`: the requesting tenant; None for operators and workers.
    """
    return write(
        lease_id,
        NewEvent(LeaseReleasing(reason=EventReason.of(reason)), request_id),
        to=LeaseState.RELEASING,
        where=[OWNED],
        bindings=parameter(within),
        values={"desired": "end", "reason": reason.as_json(), "release_requested_at": NOW, **WAKE},
    )
