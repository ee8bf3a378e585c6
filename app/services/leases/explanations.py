"""GET /v1/leases/{id}/explain: why a lease is not active yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from app.db.core.engine import fetch
from app.db.core.tenant_scope import parameter
from app.db.operations import explanations as statements
from app.domain.explanations.candidate_verdicts import OfferingAttempt, PlacementFacts, QuotaState
from app.domain.explanations.explanations import (
    Explanation,
    LeaseFacts,
    NewestAttempt,
    QueuePlace,
    choose,
    explain,
)
from app.domain.explanations.near_misses import describe_place
from app.domain.explanations.situation import find_situation
from app.domain.lease_offerings import term_of
from app.domain.lease_requests import LeaseRequest
from app.domain.leases import LIVE_ATTEMPT, AttemptState, LeaseState, VmState, starting_since
from app.domain.offerings import Market, Offering, OfferingKey
from app.domain.placement import Requirements
from app.domain.reasons import Reason
from app.domain.reservations import Term
from app.domain.vm_parts import PartsRequest
from app.domain.volumes import VolumePlace
from app.services.context import ServiceContext
from app.services.errors import ResourceNotFound
from app.services.leases.leases import lease_key
from app.services.offering_cache import CatalogueSnapshot, OfferingCache
from app.services.principal import Principal

_MOST_ATTEMPTS = 200
"""The newest attempts of a lease that an explanation reads."""

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLease:
    """The explanation of a lease in `state` at `now`. `parts`: what its request has besides compute."""

    lease_id: str
    state: LeaseState
    now: datetime
    parts: PartsRequest
    explanation: Explanation


class ExplanationService:
    """Explains leases from their rows and the cached catalogue. It calls no cloud."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._database = context.database
        self._settings = context.settings
        self._catalogue = catalogue

    async def explain(self, principal: Principal, lease_id: str) -> ExplainedLease:
        """Raises ResourceNotFound."""
        key, mine = lease_key(lease_id), principal.tenant_id
        snapshot = await self._catalogue.snapshot()
        scope = {**parameter(mine), "lease_id": key}
        async with self._database.transaction(mine, read_only=True) as connection:
            rows = await fetch(connection, statements.LEASE, scope)
            if not rows:
                raise ResourceNotFound
            row = rows[0]
            attempts = await fetch(connection, statements.ATTEMPTS, {**scope, "limit": _MOST_ATTEMPTS})
            quota = await fetch(connection, statements.QUOTA, {**scope, "owner": row["tenant_id"]})
            unlisted = await fetch(connection, statements.UNLISTED, {})
        lease = self._lease(row, attempts, snapshot)
        placement = _placement(row, lease, attempts, quota, unlisted)
        requirements, term = Requirements.of(lease.request), placement.term
        ranking = snapshot.rank_for(requirements, term).ranking
        choice = choose(placement, ranking, first_pass=lease.places and not lease.attempts_count)
        explanation = explain(
            lease,
            find_situation(lease, choice, placement),
            choice,
            placement,
            snapshot.near_misses(requirements, term),
            await self._queue(row),
        )
        return ExplainedLease(
            lease_id=key, state=lease.state, now=lease.now, parts=lease.request.parts, explanation=explanation
        )

    def _lease(self, row: _Row, attempts: Sequence[_Row], snapshot: CatalogueSnapshot) -> LeaseFacts:
        return LeaseFacts(
            now=row["now"],
            state=LeaseState(row["state"]),
            reason=None if row["reason"] is None else Reason.from_json(row["reason"]),
            request=LeaseRequest.from_json(row["request"]),
            wait_until=row["wait_until"],
            running_at=row["running_at"],
            ready_at=row["ready_at"],
            release_requested_at=row["release_requested_at"],
            ended_at=row["ended_at"],
            attempts_count=row["attempts_count"],
            next_due=row["next_due"],
            claimed=bool(row["claimed"]),
            slot_at=row["slot_at"],
            on_hold=row["on_hold"],
            launches_stopped=row["launches_stopped"],
            attempt=_newest(attempts[0], snapshot.offerings) if attempts else None,
            launch_timeout=self._settings.launch_timeout,
            boot_timeout=self._settings.boot_timeout,
            proof_seconds=self._settings.proof_seconds,
        )

    async def _queue(self, row: _Row) -> QueuePlace | None:
        """The counts concern all tenants, so this read has no tenant and a snapshot of its own. It returns only counts.

        None also when the lease has left the queue, or its turn has changed, since `row` was read.
        """
        if row["state"] != LeaseState.QUEUED or row["next_due"] is None:
            return None
        parameters = {"lease_id": row["id"], "owner": row["tenant_id"], "next_due": row["next_due"]}
        (counts,) = await self._database.fetch(None, statements.QUEUE, **parameters)
        counted, place = counts["counted"], {name: count for name, count in counts.items() if name != "counted"}
        return QueuePlace(**place) if counted else None


def _placement(
    row: _Row, lease: LeaseFacts, attempts: Sequence[_Row], quota: Sequence[_Row], unlisted: Sequence[_Row]
) -> PlacementFacts:
    since = row["pass_started_at"]
    return PlacementFacts(
        now=lease.now,
        looking_since=lease.wait_until - timedelta(seconds=lease.request.wait_seconds),
        term=_term(row, lease),
        quota=QuotaState(
            limits={entry["resource"]: entry["limit"] for entry in quota},
            used={entry["resource"]: entry["used"] for entry in quota},
            reserved={entry["resource"]: entry["reserved"] for entry in quota},
        ),
        unlisted={(place["account"], place["region"]): place["failed"] for place in unlisted},
        tried=frozenset(_key(entry) for entry in attempts if since is not None and entry["created_at"] >= since),
        attempts={_key(entry): _attempt(entry) for entry in reversed(attempts)},
    )


def _term(row: _Row, lease: LeaseFacts) -> Term:
    """The term of a lease that is placed, or of the same request made now. It is always that of the lease's tenant."""
    place = None if row["volume_place"] is None else VolumePlace.from_json(row["volume_place"])
    term = term_of(lease.request, row["tenant_id"], lease.now, max_rate=row["max_rate"], volume_place=place)
    if not lease.places:
        return replace(term, spendable=row["max_cost"])
    spendable = None if row["max_cost"] is None else row["max_cost"] - row["cost_closed"]
    return replace(term, expires_at=row["expires_at"], wait_until=lease.wait_until, spendable=spendable)


def _key(row: _Row) -> OfferingKey:
    return OfferingKey(
        account=row["account"],
        region=row["region"],
        zone=row["zone"],
        instance_type=row["instance_type"],
        market=Market(row["market"]),
        reservation=row["reservation"],
    )


def _attempt(row: _Row) -> OfferingAttempt:
    return OfferingAttempt(
        n=row["n"],
        live=AttemptState(row["state"]) in LIVE_ATTEMPT,
        created_at=row["created_at"],
        ended_at=row["ended_at"],
        error=None if row["error"] is None else row["error"],
    )


def _newest(row: _Row, offerings: Sequence[Offering]) -> NewestAttempt:
    key = _key(row)
    offering = next((offering for offering in offerings if offering.key == key), None)
    return NewestAttempt(
        place=describe_place(key, row["provider"], row["price_per_hour"]),
        state=AttemptState(row["state"]),
        live=AttemptState(row["state"]) in LIVE_ATTEMPT,
        vm_state=None if row["vm_state"] is None else VmState(row["vm_state"]),
        created_at=row["created_at"],
        starting_since=starting_since(row["reservation"], row["known_at"], row["vm_state_at"]),
        retry_at=row["retry_at"],
        failed=row["error"] is not None,
        typical_ready_seconds=None if offering is None else offering.ready_seconds,
        proof_awaited_at=row["proof_awaited_at"],
        gpu_rebooted_at=row["gpu_rebooted_at"],
    )
