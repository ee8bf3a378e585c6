"""The election of a group's pool: the ranking that places a single lease, read for all members together."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from app.db.groups import coordination, members
from app.domain.explanations.placement_failure import why_exhausted
from app.domain.groups.groups import GroupFacts, Pool
from app.domain.groups.pools import choose_pool
from app.domain.lease_offerings import for_term
from app.domain.lease_requests import LeaseRequest
from app.domain.placement import Ranking, Requirements
from app.domain.reasons import Reason, ReasonCode
from app.domain.reservations import Term
from app.settings.providers import most_members
from workers.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The pool to try next; or when to look again; or why no pool is left."""

    pool: Pool | None = None
    look_again: datetime | None = None
    gave_up: Reason | None = None


def elect(runtime: Runtime, row: Any) -> Election:
    """Chooses a pool for a group, a row of `coordination.read`."""
    group = coordination.group_from_row(row)
    ranking = _ranking(runtime, group, row)
    candidates = [
        offering for offering in ranking.candidates if group.size <= most_members(offering.provider, group.placement)
    ]
    pause = timedelta(seconds=runtime.cool_offs.capacity)
    chosen = choose_pool(group, candidates, row.now, pause)
    if isinstance(chosen, datetime):
        return Election(look_again=chosen)
    return Election(pool=chosen) if chosen is not None else Election(gave_up=_why(group, ranking))


def _ranking(runtime: Runtime, group: GroupFacts, row: Any) -> Ranking:
    request = LeaseRequest.from_json(row.lease)
    terms = runtime.database.all(members.template(group.id))[0]
    term = Term(
        tenant_id=group.tenant_id,
        expires_at=terms.expires_at,
        wait_until=group.wait_until,
        waits=timedelta(seconds=request.wait_seconds),
        parts=request.parts,
        spendable=None if terms.max_cost is None else Decimal(terms.max_cost),
    )
    return for_term(runtime.catalogue.ranking(Requirements.of(request), row.now), term, row.now, launching=True)


def _why(group: GroupFacts, ranking: Ranking) -> Reason:
    if not group.pools_tried:
        return why_exhausted(ranking, [], 0)
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, f"none of the {len(group.pools_tried)} pools tried formed the group")
