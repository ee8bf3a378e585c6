"""Statements on attempts. Facts are written by (attempt id, token), regardless of the lease's current state.

Three kinds of writers, and what each may change:
- a fact (the VM's id, an accepted termination) is true whenever it is recorded. It is added, and undoes nothing;
- an answer without a VM concerns one send. It counts while that send is the attempt's newest (`_answer`);
- a decision, and the pace of retries, requires the claim.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Case,
    ColumnElement,
    Interval,
    Text,
    TextClause,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound, Shape, plain, setting, shape
from app.db.core.sql import ROWS, AnySelect, Json, Time, hexadecimal, recordset
from app.db.leases.billing import ends_at
from app.db.leases.claims import held_by
from app.db.schema import cluster
from app.db.schema.tables import attempt, installation, lease, tenant
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import LIVE_ATTEMPT, AttemptState, VmState

_THIS = attempt.c.id == bindparam("attempt", type_=Text)


class PlannedAttempt(NamedTuple):
    """What a new attempt has of its own, where several are planned together."""

    id: AttemptId
    lease_id: LeaseId
    token: str
    params: Mapping[str, Any] | None
    params_hash: str
    host_key_hash: bytes | None
    agent_hash: bytes | None

    def as_row(self) -> dict[str, Any]:
        """A row of the statement of `plan`."""
        hashes = {name: hexadecimal(getattr(self, name)) for name in ("host_key_hash", "agent_hash")}
        return {**self._asdict(), **hashes}


@lru_cache(maxsize=16)
def _plan(shared: tuple[str, ...]) -> Insert:
    names = PlannedAttempt._fields
    own = recordset("own", *(column(name, attempt.c[name].type) for name in names))
    same = (bindparam(f"new_{name}", type_=attempt.c[name].type) for name in shared)
    return insert(attempt).from_select([*names, *shared], select(*(own.c[name] for name in names), *same))


def plan(planned: Sequence[PlannedAttempt], shared: Mapping[str, Any]) -> Bound[Insert]:
    """Records the intent, before any side effect. `shared`: the columns that are the same for all attempts."""
    rows = json.dumps([planned_attempt.as_row() for planned_attempt in planned])
    return Bound(_plan(tuple(shared)), {ROWS: rows, **plain(shared)})


MAY_SEND = (
    lease.c.desired == "run",
    lease.c.group_retreat.is_(False),
    ends_at(lease) > func.now() + bindparam("call", type_=Interval),
    exists().where(installation.c.hold.is_(None), installation.c.launches_stopped.is_(None), cluster.IS_KNOWN),
    exists().where(tenant.c.id == lease.c.tenant_id, tenant.c.status == "active"),
)
"""Guard of a create call.

The lease is wanted in its pool, the call fits before its effective end, no brake is on, and the tenant is not suspended.
"""


def _send() -> Update:
    held = (
        update(lease)
        .where(
            lease.c.id == select(attempt.c.lease_id).where(_THIS).scalar_subquery(),
            lease.c.claim_id == bindparam("claim", type_=Uuid),
            lease.c.held_until > func.now(),
            *MAY_SEND,
        )
        .values(held_until=func.now() + bindparam("hold", type_=Interval), slot_bucket=None, slot_at=None)
        .returning(lease.c.id)
        .cte("held")
    )
    return (
        update(attempt)
        .where(
            _THIS,
            attempt.c.lease_id == held.c.id,
            attempt.c.state.in_([AttemptState.PLANNED.value, AttemptState.SENT.value]),
        )
        .values(
            state=AttemptState.SENT.value,
            first_sent_at=func.coalesce(attempt.c.first_sent_at, func.now()),
            last_sent_at=func.now(),
            unknown_since=func.coalesce(attempt.c.unknown_since, func.now()),
            retry_at=None,
            params=func.coalesce(attempt.c.params, bindparam("params", type_=Json)),
        )
        .returning(attempt.c.params, attempt.c.last_sent_at)
    )


_SEND = _send()


def send(
    attempt_id: AttemptId,
    claim_id: UUID,
    params: Mapping[str, Any] | None = None,
    *,
    call_seconds: float,
    hold_seconds: float,
) -> Bound[Update]:
    """`planned -> sent`, if the claim is ours and the lease is still wanted. Extends the claim over the call.

    `params`: of an attempt that was planned without. The lease's slot of the launch rate is used up.

    From here on the outcome is unknown until it is recorded. A worker that is killed during the call leaves the attempt
    in this state. The retry clock runs from the first such send. Returns one row (params, last_sent_at), or none: then
    nothing may be sent. `call_seconds` must fit before the lease's effective end, no brake of the installation may be on, and the
    running PostgreSQL cluster must be the known one.

    `last_sent_at` identifies this send: its answer is written with it. The lease is locked before its attempt, as in
    every writer of attempts, so that no deadlock occurs.
    """
    call, hold = timedelta(seconds=call_seconds), timedelta(seconds=hold_seconds)
    parameters = {"attempt": attempt_id, "claim": claim_id, "params": params, "call": call, "hold": hold}
    return Bound(_SEND, parameters)


def fact(attempt_id: AttemptId, token: str, values: Mapping[str, Any]) -> Update:
    """Writes a fact about an attempt, unless the attempt has ended. Requires no claim."""
    return (
        update(attempt)
        .where(
            attempt.c.id == attempt_id,
            attempt.c.token == token,
            attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT]),
        )
        .values(**values)
        .returning(attempt.c.id)
    )


def _answer(attempt_id: AttemptId, token: str, sent_at: datetime) -> Update:
    """The attempt, while the send of `sent_at` is its newest and no VM of it is known.

    An answer without a VM concerns its own send alone. A worker that has since sent again, searches for the VM or has
    found it has newer information.
    """
    newest = (attempt.c.state == AttemptState.SENT.value, attempt.c.last_sent_at == sent_at)
    return update(attempt).where(attempt.c.id == attempt_id, attempt.c.token == token, *newest).returning(attempt.c.id)


_OBSERVED = frozenset({"vm_state", "vm_state_at", "vm_reason", "public_ip", "private_ip"})
_OF_THE_SEND = frozenset({"error", "retry_at"})


_FACTS = ("instance_id", "vm_state", "public_ip", "private_ip", "vm_reason")
"""Columns that an answer to a create call fills."""


@lru_cache(maxsize=1)
def _known_each() -> Update:
    vm = recordset("vm", *(column(name, attempt.c[name].type) for name in ("id", "token", *_FACTS)))
    reason = func.coalesce(vm.c.vm_reason, attempt.c.vm_reason)
    changes = {**{name: vm.c[name] for name in _FACTS}, "vm_reason": reason, "error": literal(None, Json)}
    return _known_by(changes, attempt.c.id == vm.c.id, attempt.c.token == vm.c.token)


class KnownVm(NamedTuple):
    """An attempt, and what an answer says of its VM: columns of `_FACTS`, `instance_id` and `vm_state` among them."""

    attempt_id: AttemptId
    token: str
    facts: Mapping[str, Any]


def known_each(vms: Sequence[KnownVm]) -> Bound[Update]:
    """`known` for several attempts in one statement. The caller has locked their leases."""
    rows = [{"id": vm.attempt_id, "token": vm.token, **vm.facts} for vm in sorted(vms)]
    return Bound(_known_each(), {ROWS: json.dumps(rows)})


@lru_cache(maxsize=16)
def _known(columns: Shape) -> Update:
    return _known_by(setting(attempt, columns), _THIS, attempt.c.token == bindparam("launch_token", type_=Text))


def _known_by(new: Mapping[str, Any], *this: ColumnElement[bool]) -> Update:
    live = attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
    changes = {**new, "vm_state_at": func.now(), "retry_at": literal(None, Time)}
    unsettled = and_(live, attempt.c.state != AttemptState.KNOWN.value)
    is_gone = attempt.c.vm_state == VmState.GONE.value
    observed = and_(attempt.c.instance_id.is_not(None), or_(is_gone, changes["vm_state"] != VmState.GONE.value))
    merged = {name: case((observed, attempt.c[name]), else_=changes[name]) for name in _OBSERVED & changes.keys()}
    merged |= {name: case((unsettled, changes[name]), else_=attempt.c[name]) for name in _OF_THE_SEND & changes.keys()}
    return (
        update(attempt)
        .where(*this, or_(attempt.c.instance_id.is_(None), attempt.c.instance_id == changes["instance_id"]))
        .values(
            state=case((live, AttemptState.KNOWN.value), else_=attempt.c.state),
            known_at=func.coalesce(attempt.c.known_at, func.now()),
            **{**changes, **merged},
        )
        .returning(attempt.c.id, attempt.c.state)
    )


def known(attempt_id: AttemptId, token: str, values: Mapping[str, Any]) -> Bound[Update]:
    """Records the provider's id, also when the attempt was given up meanwhile. Never deletes or changes an id.

    A dead or refused attempt stays so, with its error. Garbage collection ends a VM that turned up late. It also ends a
    second VM of an attempt whose VM is known. Later observations of the VM stay too: the answer to a create call is
    older, however late it is recorded. The exception is the first answer that reports the VM as gone: a VM that is gone
    stays gone. `values` contains `instance_id` and `vm_state`.
    """
    return Bound(_known(shape(values)), {"attempt": attempt_id, "launch_token": token, **plain(values)})


def not_done(
    attempt_id: AttemptId,
    token: str,
    sent_at: datetime,
    seconds: float,
    error: Mapping[str, Any],
    *,
    unknown_since: datetime | None,
    reached: bool = True,
) -> Update:
    """The send of `sent_at` was not executed (throttled). The outcome is as unknown as before that send.

    The attempt is sent again in `seconds`.
    """
    unreachable = None if reached else func.coalesce(attempt.c.unreachable_since, attempt.c.last_sent_at)
    return _answer(attempt_id, token, sent_at).values(
        unknown_since=unknown_since, unreachable_since=unreachable, **_again(seconds, error)
    )


def unknown(attempt_id: AttemptId, token: str, sent_at: datetime, seconds: float, error: Mapping[str, Any]) -> Update:
    """The outcome of the send of `sent_at` is unknown. The retry clock runs from the first unknown outcome."""
    since = func.coalesce(attempt.c.unknown_since, attempt.c.last_sent_at)
    return _answer(attempt_id, token, sent_at).values(unknown_since=since, **_again(seconds, error))


def only_look(attempt_id: AttemptId, token: str, sent_at: datetime, error: Mapping[str, Any]) -> Update:
    """The answer to the send of `sent_at` shows that something exists, or may exist, under the token: as `settle`."""
    return _answer(attempt_id, token, sent_at).values(**_SETTLING, error=dict(error))


def retry_later(
    attempt_id: AttemptId, token: str, seconds: float, error: Mapping[str, Any], *, claim_id: UUID
) -> Update:
    """A call about the attempt failed: retry in `seconds`. Requires the claim, which sets the pace."""
    return fact(attempt_id, token, _again(seconds, error)).where(held_by(claim_id))


def failed(attempt_id: AttemptId, token: str, error: Mapping[str, Any], *, claim_id: UUID) -> Update:
    """A call about the attempt was refused and is not repeated. Requires the claim."""
    return fact(attempt_id, token, {"error": dict(error)}).where(held_by(claim_id))


def _again(seconds: float, error: Mapping[str, Any]) -> dict[str, Any]:
    return {"retry_at": func.now() + timedelta(seconds=seconds), "error": dict(error)}


_SETTLING: Mapping[str, Any] = {
    "state": AttemptState.SETTLING.value,
    "settling_since": func.now(),
    "empty_listings": 0,
    "last_empty_listing_at": None,
    "retry_at": None,
}


def settle(attempt_id: AttemptId, token: str) -> Update:
    """From here on the attempt is only searched for, and the proof of absence restarts.

    The statement has no effect when inventory has found the VM meanwhile.
    """
    return fact(attempt_id, token, _SETTLING).where(attempt.c.state == AttemptState.SENT.value)


def presume_gone(attempt_id: AttemptId, claim_id: UUID, *, absent_since: datetime | None) -> Update:
    """Neither a listing nor a direct get showed the VM. It is gone as of `absent_since`, when it was last seen.

    Requires the claim, and that nobody has seen the VM since.
    """
    unseen = (attempt.c.vm_state == VmState.ABSENT.value, attempt.c.vm_state_at.is_not_distinct_from(absent_since))
    return (
        update(attempt)
        .where(attempt.c.id == attempt_id, attempt.c.state == AttemptState.KNOWN.value, *unseen, held_by(claim_id))
        .values(vm_state=VmState.GONE.value, vm_state_at=func.coalesce(attempt.c.vm_state_at, func.now()))
        .returning(attempt.c.id)
    )


def end(
    attempt_id: AttemptId,
    claim_id: UUID,
    state: AttemptState,
    *,
    before: AttemptState,
    clean: bool,
    error: Mapping[str, Any] | None = None,
) -> Bound[Update]:
    """Ends an attempt as refused or dead, while the lease is ours. Returns its billing period and prices, to close it.

    `before`: the state on which the decision was based. An attempt whose VM was found meanwhile stays live.
    """
    values: dict[str, Any] = {"state": str(state), "clean": clean}
    if error is not None:
        values["error"] = dict(error)
    parameters = {"attempt": attempt_id, "before": str(before), "claim": claim_id}
    return Bound(_end(shape(values)), {**parameters, **plain(values)})


@lru_cache(maxsize=2)
def _end(columns: Shape) -> Update:
    return (
        update(attempt)
        .where(
            _THIS,
            attempt.c.state == bindparam("before", type_=Text),
            attempt.c.lease_id == lease.c.id,
            lease.c.claim_id == bindparam("claim", type_=Uuid),
        )
        .values(**setting(attempt, columns), ended_at=func.now(), billing_ended_at=_billing_end())
        .returning(
            attempt.c.billing_started_at,
            attempt.c.billing_ended_at,
            attempt.c.price_per_hour,
            attempt.c.disk_price_per_hour,
            attempt.c.address_price_per_hour,
            attempt.c.cost_of_past_prices,
        )
    )


def _billing_end() -> Case[Any]:
    """When billing of an ended attempt ends: at the provider's own transition time (`vm_state_at`, once gone), never later than now.

    Billing of a VM that the provider interrupted and that stays ends when it was stopped (`stopped_at` of its reason).
    """
    stopped_at = cast(attempt.c.vm_reason["stopped_at"].astext, Time)
    gone_at = func.least(func.coalesce(attempt.c.vm_state_at, func.now()), stopped_at)
    return case(
        (attempt.c.billing_started_at.is_(None), literal(None, Time)),
        else_=func.least(func.now(), func.greatest(attempt.c.billing_started_at, gone_at)),
    )


def tried_since(lease_id: LeaseId, since: datetime) -> AnySelect:
    """The offerings that this placement pass has tried already, in the order of the attempts."""
    tried = select(
        attempt.c.account,
        attempt.c.region,
        attempt.c.zone,
        attempt.c.instance_type,
        attempt.c.market,
        attempt.c.reservation,
        attempt.c.error,
    )
    return tried.where(attempt.c.lease_id == lease_id, attempt.c.created_at >= since).order_by(attempt.c.n)


_CLEANED = (
    update(attempt)
    .where(attempt.c.id == func.any(bindparam("ids", type_=ARRAY(Text))))
    .values(clean=True)
    .returning(attempt.c.lease_id)
)


def cleaned(attempt_ids: Sequence[str]) -> Bound[Update]:
    """Marks ended attempts without any leftover resource that costs money. Returns their lease ids."""
    return Bound(_CLEANED, {"ids": list(attempt_ids)})


_WATCHED = text(
    """
    SELECT a.id, a.lease_id, a.n, a.state, a.token, a.instance_id, a.zone, a.vm_state, a.vm_state_at, a.ready, a.clean, a.known_at,
           a.market, a.terminate_sent_at, l.deadline_applied, l.term_in_doubt, a.public_ip, a.private_ip, now() AS now, l.state AS lease_state,
           a.host_key_hash IS NOT NULL AND l.ssh_host_keys IS NULL AS owes_host_keys, l.proof, r.last_complete_listing_at AS listed_at
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    LEFT JOIN account_region r ON r.account = a.account AND r.region = a.region
    WHERE a.account = :account AND a.region = :region
      AND (a.state = 'known' OR (a.state IN ('refused', 'dead') AND NOT a.clean))
      AND (l.state <> 'active' OR a.vm_state <> 'running' OR a.terminate_sent_at IS NOT NULL)
      AND l.state NOT IN ('released', 'failed')
    """
)


def watched(account: str, region: str) -> Bound[TextClause]:
    """Attempts in change: booting, ending, lost, or with a leftover resource."""
    return Bound(_WATCHED, {"account": account, "region": region})
