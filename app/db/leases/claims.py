"""Claims: one worker owns a lease at a time.

Only the database's clock decides whether a lease is due, held or expired.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Executable,
    Integer,
    Interval,
    Text,
    Update,
    Uuid,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.leases import idleness
from app.db.leases.loaded_leases import ATTEMPT_COLUMNS
from app.db.leases.process_locks import claim_ids
from app.db.schema import cluster
from app.db.schema.tables import account_region, attempt, gpu_latest, installation, lease, lease_group, tenant
from app.domain.ids import LeaseId
from app.domain.leases import TERMINAL


def is_free() -> ColumnElement[bool]:
    """Nobody holds the lease."""
    return or_(lease.c.held_until.is_(None), lease.c.held_until < func.now())


_ID, _CLAIM = bindparam("lease", type_=Text), bindparam("claim", type_=Uuid)
_HOLD = func.now() + bindparam("hold", type_=Interval)
_OURS = lease.c.id == _ID, lease.c.claim_id == _CLAIM

_TAKE = (
    update(lease)
    .where(lease.c.id == _ID, lease.c.next_due <= func.now(), is_free())
    .values(claim_id=_CLAIM, held_until=_HOLD)
    .returning(lease.c.id)
)


def claim(lease_id: LeaseId, claim_id: UUID, hold_seconds: float) -> Bound[Executable]:
    """Claims a due lease that nobody holds. Returns one row (id), or none."""
    return Bound(_TAKE, {"lease": lease_id, "claim": claim_id, "hold": timedelta(seconds=hold_seconds)})


def claim_due(limit: int, hold_seconds: float, number: int | None = None) -> Bound[Executable]:
    """Claims up to `limit` due leases for process `number`, without waiting for rows that others hold.

    Tenants take turns, each with its longest-due lease. However many leases of one tenant wait, they do not delay a
    lease of another tenant. Leases that are due at the same moment, such as those waiting for one offering's cool-off,
    come in random order.

    Returns (id, claim_id) rows in that order; each lease gets its own claim id.
    """
    return Bound(_claim_due(number), {"limit": limit, "hold": timedelta(seconds=hold_seconds)})


@lru_cache(maxsize=16)
def _claim_due(number: int | None) -> Executable:
    is_due = and_(lease.c.next_due <= func.now(), is_free())
    turn = func.row_number().over(partition_by=lease.c.tenant_id, order_by=lease.c.next_due)
    lined_up = select(lease.c.id, turn.label("turn")).where(is_due).subquery("lined_up")
    due = (
        select(lease.c.id, lined_up.c.turn, lease.c.next_due)
        .join(lined_up, lined_up.c.id == lease.c.id)
        .where(is_due)
        .order_by(lined_up.c.turn, lease.c.next_due, func.random())
        .limit(bindparam("limit", type_=Integer))
        .with_for_update(of=lease, skip_locked=True)
        .cte("due")
    )
    taken = (
        update(lease)
        .where(lease.c.id == due.c.id)
        .values(claim_id=claim_ids(number), held_until=_HOLD)
        .returning(lease.c.id, lease.c.claim_id, due.c.turn, due.c.next_due)
        .cte("taken")
    )
    return select(taken.c.id, taken.c.claim_id).order_by(taken.c.turn, taken.c.next_due)


_HOLDS = select(lease.c.id).where(*_OURS)


def holds(lease_id: LeaseId, claim_id: UUID) -> Bound[AnySelect]:
    """Returns one row (id) while this claim holds the lease."""
    return Bound(_HOLDS, {"lease": lease_id, "claim": claim_id})


_REST = (
    update(lease)
    .where(*_OURS)
    .values(
        claim_id=None,
        held_until=None,
        next_due=case(
            (lease.c.state.in_([str(s) for s in TERMINAL]), None),
            (lease.c.wake_count != bindparam("seen", type_=Integer), func.now()),
            else_=bindparam("until", type_=Time),
        ),
    )
)


def unclaim(lease_id: LeaseId, claim_id: UUID, *, next_due: datetime | None, wake_count: int) -> Bound[Update]:
    """Releases the claim of a lease that rests until `next_due`.

    The lease is due again at once when somebody woke it since it was loaded (`wake_count`).
    """
    return Bound(_REST, {"lease": lease_id, "claim": claim_id, "until": next_due, "seen": wake_count})


class ClaimRest(NamedTuple):
    """A claimed lease that rests until `until`, and its `wake_count` when it was loaded."""

    lease_id: LeaseId
    claim_id: UUID
    until: datetime | None
    wake_count: int


_REST_EACH = text(
    f"""
    WITH rest AS MATERIALIZED (
        SELECT * FROM unnest(CAST(:leases AS text[]), CAST(:claims AS uuid[]), CAST(:untils AS timestamptz[]),
                             CAST(:seen AS int[])) AS r (id, claim, until, seen)
    ), locked AS MATERIALIZED (
        SELECT l.id FROM lease l JOIN rest r ON l.id = r.id AND l.claim_id = r.claim ORDER BY l.id FOR NO KEY UPDATE OF l)
    UPDATE lease l SET claim_id = NULL, held_until = NULL,
        next_due = CASE WHEN l.state IN ({", ".join(f"'{state}'" for state in sorted(TERMINAL))}) THEN NULL
                        WHEN l.wake_count <> r.seen THEN now() ELSE r.until END
    FROM rest r WHERE l.id = r.id AND l.claim_id = r.claim AND l.id IN (SELECT id FROM locked)
    """
)


def unclaim_each(rests: Sequence[ClaimRest]) -> Bound[Executable]:
    """`unclaim` for several leases in one statement."""
    return Bound(
        _REST_EACH,
        {
            "leases": [rest.lease_id for rest in rests],
            "claims": [rest.claim_id for rest in rests],
            "untils": [rest.until for rest in rests],
            "seen": [rest.wake_count for rest in rests],
        },
    )


_LEASE = [
    "id",
    "tenant_id",
    "name",
    "state",
    "desired",
    "reason",
    "request",
    "labels",
    "on_interruption",
    "minimum_claim",
    "minimum_rate",
    "estimated_price_per_hour",
    "created_at",
    "expires_at",
    "max_cost",
    "max_rate",
    "cost_reached_at",
    "wait_until",
    "pass_started_at",
    "running_at",
    "ready_at",
    "release_requested_at",
    "attempts_count",
    "wake_count",
    "slot_bucket",
    "slot_at",
    "launched_at",
    "cost_closed",
    "placement",
    "rate_per_hour",
    "connection",
    "reboot_requested_at",
    "deadline_applied",
    "term_in_doubt",
    "proof",
    "gpu_health",
    *("request_id", "key_id", "volume_place"),
    *("group_id", "rank", "group_pool", "group_retreat"),
]


def loading(*of: ColumnElement[bool]) -> AnySelect:
    """The facts for the next decision about these leases. See `load`."""
    newest = and_(attempt.c.lease_id == lease.c.id, attempt.c.n == lease.c.attempts_count)
    place = and_(account_region.c.account == attempt.c.account, account_region.c.region == attempt.c.region)
    other = attempt.alias("other")
    is_unclean = (other.c.lease_id == lease.c.id, other.c.clean.is_(False), other.c.ended_at.is_not(None))
    unclean = select(func.count()).where(*is_unclean).scalar_subquery()
    return (
        select(
            func.now().label("now"),
            select(installation.c.hold).scalar_subquery().label("hold"),
            select(installation.c.launches_stopped).scalar_subquery().label("launches_stopped"),
            cluster.is_known().label("cluster_is_known"),
            *(lease.c[name].label(f"lease_{name}") for name in _LEASE),
            *(attempt.c[name].label(f"attempt_{name}") for name in ATTEMPT_COLUMNS),
            unclean.label("unclean"),
            attempt.c.params_hash,
            attempt.c.agent_hash.is_not(None).label("attempt_has_agent"),
            attempt.c.params.is_not(None).label("attempt_has_params"),
            attempt.c.offering["gpu"]["count"].as_integer().label("attempt_gpu_count"),
            *(attempt.c[name].label(f"attempt_{name}") for name in ("public_ip", "private_ip", "end_accepted")),
            *(
                attempt.c[name].label(f"attempt_{name}")
                for name in ("created_at", "offering", "batch_key", "batch_id", "batch_index")
            ),
            account_region.c.last_watched_at.label("attempt_watched_at"),
            lease_group.c.state.label("group_state"),
            lease_group.c.on_member_loss,
            (tenant.c.status == "active").label("tenant_active"),
            *idleness.FACTS,
        )
        .select_from(
            lease.join(tenant, tenant.c.id == lease.c.tenant_id)
            .outerjoin(attempt, newest)
            .outerjoin(account_region, place)
            .outerjoin(lease_group, lease_group.c.id == lease.c.group_id)
            .outerjoin(gpu_latest, idleness.RUN_OF_LEASE)
        )
        .where(*of)
    )


_LOAD = loading(*_OURS)


def load(lease_id: LeaseId, claim_id: UUID) -> Bound[AnySelect]:
    """The facts for the next decision, with the database's `now`. Returns no row when the claim is no longer ours."""
    return Bound(_LOAD, {"lease": lease_id, "claim": claim_id})


_LOAD_EACH = loading(
    lease.c.id == func.any(bindparam("leases", type_=ARRAY(Text))),
    lease.c.claim_id == func.any(bindparam("claims", type_=ARRAY(Uuid))),
).add_columns(lease.c.claim_id)


def load_each(claimed: Mapping[LeaseId, UUID]) -> Bound[AnySelect]:
    """The rows of `load`, with their `claim_id`, for leases by their claims. A claim that was lost has no row."""
    return Bound(_LOAD_EACH, {"leases": list(claimed), "claims": list(claimed.values())})


def held_by(claim_id: UUID) -> ColumnElement[bool]:
    """Guard for statements on attempts: this claim still holds their lease."""
    return exists().where(lease.c.id == attempt.c.lease_id, lease.c.claim_id == claim_id)


def postpone(lease_id: LeaseId, claim_id: UUID, pause: timedelta) -> Update:
    """Releases a claim without a decision. The lease is due again after `pause`."""
    return (
        update(lease)
        .where(lease.c.id == lease_id, lease.c.claim_id == claim_id, lease.c.ended_at.is_(None))
        .values(claim_id=None, held_until=None, next_due=func.now() + pause)
    )
