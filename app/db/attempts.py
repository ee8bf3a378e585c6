"""Statements on attempts. Facts are written by (attempt id, token) whatever the lease became meanwhile."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Interval,
    Select,
    Text,
    TextClause,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.bound import Bound, Shape, plain, setting, shape
from app.db.tables import attempt, installation, lease
from app.db.types import Time
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import LIVE_ATTEMPT, AttemptState, VmState

_THIS = attempt.c.id == bindparam("attempt", type_=Text)
_PLAN = insert(attempt)


def plan(values: dict[str, Any]) -> Bound[Insert]:
    """T2: the intent, before any side effect."""
    return Bound(_PLAN, values)


def _send() -> Update:
    locked = select(attempt.c.lease_id).where(_THIS).with_for_update(key_share=True).cte("locked")
    held = (
        update(lease)
        .where(
            lease.c.id == locked.c.lease_id,
            lease.c.claim_id == bindparam("claim", type_=Uuid),
            lease.c.held_until > func.now(),
            lease.c.desired == "run",
            lease.c.expires_at > func.now() + bindparam("call", type_=Interval),
            exists().where(installation.c.hold.is_(None), installation.c.launches_stopped.is_(None)),
        )
        .values(held_until=func.now() + bindparam("hold", type_=Interval))
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
        )
        .returning(attempt.c.params)
    )


_SEND = _send()


def send(attempt_id: AttemptId, claim_id: UUID, *, call_seconds: float, hold_seconds: float) -> Bound[Update]:
    """T3: `planned -> sent` if the claim is ours and the lease still wanted; the claim is kept over the call.

    From here on the outcome is unknown until it is recorded: a worker killed in the call leaves that behind, and the
    clock of repeating runs from the first such send. Answers one row (params), or none: then nothing may be sent.
    `call_seconds` must fit before the expiry, and no brake of the installation may be on.

    The attempt is locked before its lease, as observers do, so that they never wait for each other in a circle.
    """
    call, hold = timedelta(seconds=call_seconds), timedelta(seconds=hold_seconds)
    return Bound(_SEND, {"attempt": attempt_id, "claim": claim_id, "call": call, "hold": hold})


def fact(attempt_id: AttemptId, token: str, values: Mapping[str, Any]) -> Update:
    """Writes what was learnt about an attempt, unless it has ended. No claim is asked for."""
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


_OBSERVED = frozenset({"vm_state", "vm_state_at", "vm_reason", "public_ip", "private_ip"})


@lru_cache(maxsize=16)
def _known(columns: Shape) -> Update:
    live = attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT])
    told = {**setting(attempt, columns), "vm_state_at": func.now()}
    seen_since = and_(attempt.c.state == AttemptState.KNOWN.value, told["vm_state"] != VmState.GONE.value)
    kept = {name: case((seen_since, attempt.c[name]), else_=told[name]) for name in _OBSERVED & told.keys()}
    return (
        update(attempt)
        .where(_THIS, attempt.c.token == bindparam("launch_token", type_=Text))
        .values(
            state=case((live, AttemptState.KNOWN.value), else_=attempt.c.state),
            known_at=func.coalesce(attempt.c.known_at, func.now()),
            retry_at=None,
            **{**told, **kept},
        )
        .returning(attempt.c.id, attempt.c.state)
    )


def known(attempt_id: AttemptId, token: str, values: Mapping[str, Any]) -> Bound[Update]:
    """T5: the provider's id is recorded, also when the attempt was given up meanwhile. Never drops an id.

    An attempt already dead or refused stays so: garbage collection ends what turned up late. What observers have seen of
    the VM since stays too: the answer to a create call is older, however late it is written down. Unless it says that the
    VM is gone: none comes back. `values` has the `vm_state`.
    """
    return Bound(_known(shape(values)), {"attempt": attempt_id, "launch_token": token, **plain(values)})


def not_done(
    attempt_id: AttemptId,
    token: str,
    seconds: float,
    error: Mapping[str, Any],
    *,
    unknown_since: datetime | None,
    reached: bool = True,
) -> Update:
    """What was just sent was not done (throttled): as unknown as before that send. Send again in `seconds`."""
    unreachable = None if reached else func.coalesce(attempt.c.unreachable_since, attempt.c.last_sent_at)
    return retry_later(attempt_id, token, seconds, error).values(
        unknown_since=unknown_since, unreachable_since=unreachable
    )


def retry_later(attempt_id: AttemptId, token: str, seconds: float, error: Mapping[str, Any]) -> Update:
    """Nothing was done: ask again in `seconds`."""
    return fact(attempt_id, token, {"retry_at": func.now() + timedelta(seconds=seconds), "error": dict(error)})


def unknown(attempt_id: AttemptId, token: str, seconds: float, error: Mapping[str, Any]) -> Update:
    """The outcome of a send is unknown; the clock of repeating runs from the first time."""
    return fact(
        attempt_id,
        token,
        {
            "unknown_since": func.coalesce(attempt.c.unknown_since, attempt.c.last_sent_at),
            "retry_at": func.now() + timedelta(seconds=seconds),
            "error": dict(error),
        },
    )


def settle(attempt_id: AttemptId, token: str) -> Update:
    """From here only looked for: the proof starts anew. Not when inventory has found its VM meanwhile."""
    return fact(
        attempt_id,
        token,
        {
            "state": AttemptState.SETTLING.value,
            "settling_since": func.now(),
            "empty_listings": 0,
            "last_empty_listing_at": None,
            "retry_at": None,
        },
    ).where(attempt.c.state == AttemptState.SENT.value)


def end(
    attempt_id: AttemptId, claim_id: UUID, state: AttemptState, *, clean: bool, error: Mapping[str, Any] | None = None
) -> Update:
    """Ends a live attempt as refused or dead, while the lease is ours. Answers its billing, to close it with.

    Billing ends at the provider's own transition time (`vm_state_at`, once gone), never later than now.
    """
    values: dict[str, Any] = {
        "state": str(state),
        "clean": clean,
        "ended_at": func.now(),
        "billing_ended_at": case(
            (attempt.c.billing_started_at.is_(None), literal(None, Time)),
            else_=func.least(
                func.now(),
                func.greatest(attempt.c.billing_started_at, func.coalesce(attempt.c.vm_state_at, func.now())),
            ),
        ),
    }
    if error is not None:
        values["error"] = dict(error)
    return (
        update(attempt)
        .where(
            attempt.c.id == attempt_id,
            attempt.c.state.in_([str(s) for s in LIVE_ATTEMPT]),
            attempt.c.lease_id == lease.c.id,
            lease.c.claim_id == claim_id,
        )
        .values(**values)
        .returning(
            attempt.c.billing_started_at,
            attempt.c.billing_ended_at,
            attempt.c.price_per_hour,
        )
    )


def tried_since(lease_id: LeaseId, since: datetime) -> Select[Any]:
    """The offerings that this pass has tried already."""
    return select(
        attempt.c.account, attempt.c.region, attempt.c.zone, attempt.c.instance_type, attempt.c.market, attempt.c.error
    ).where(attempt.c.lease_id == lease_id, attempt.c.created_at >= since)


def cleaned(attempt_ids: Sequence[str]) -> Update:
    """Ended attempts of which nothing is left that costs money. Answers their lease ids."""
    return update(attempt).where(attempt.c.id.in_(attempt_ids)).values(clean=True).returning(attempt.c.lease_id)


_WATCHED = text(
    """
    SELECT a.id, a.lease_id, a.n, a.state, a.token, a.instance_id, a.zone, a.vm_state, a.vm_state_at, a.ready, a.clean, a.known_at,
           a.terminate_sent_at, a.public_ip, a.private_ip, now() AS now, l.state AS lease_state, r.last_complete_listing_at AS listed_at
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    LEFT JOIN account_region r ON r.account = a.account AND r.region = a.region
    WHERE a.account = :account AND a.region = :region
      AND (a.state = 'known' OR (a.state IN ('refused', 'dead') AND NOT a.clean))
      AND (l.state <> 'active' OR a.vm_state <> 'running')
      AND l.state NOT IN ('released', 'failed')
    """
)


def watched(account: str, region: str) -> Bound[TextClause]:
    """Attempts in change: booting, ending, lost, or with something left over."""
    return Bound(_WATCHED, {"account": account, "region": region})
