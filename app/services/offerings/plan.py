"""POST /v1/leases/plan: what a request would lead to, without doing it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.fleet import accounts
from app.db.tenancy import budgets as budget_statements
from app.db.tenancy import quota_limits
from app.domain import quotas
from app.domain.billing import term_cost
from app.domain.explanations.near_misses import ExcludedGroup
from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Offering
from app.domain.placement import Excluded
from app.domain.rates import Rate, disk_gib_at, rate_at
from app.domain.vm_parts import PartsRequest
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.leases.admission import Needs, check_terms, needs_of
from app.services.leases.creation import check_name
from app.services.leases.requests import CreateLease
from app.services.leases.ssh_keys import with_ssh_keys
from app.services.leases.volumes import check_free, find_volumes, with_volume_place
from app.services.money.budget_refusals import BudgetNeed, budget_needs
from app.services.offering_cache import OfferingCache
from app.services.principal import Principal
from app.services.request_checks import CheckedRequest, check_request, request_term


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A resource that admission would claim. `limit` None: none is set, which `gpus` needs and the rest does not."""

    resource: str
    limit: Decimal | None
    used: Decimal
    asked: Decimal
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`rank` counts from 1. `quota_fits`: the tenant's quota has room for this offering in whole.

    `rate`: USD an hour with all parts. `disk_gib`: billed GiB of all network disks. `price_for_term`: USD, all parts.
    """

    rank: int
    offering: Offering
    rate: Rate
    disk_gib: int
    price_for_term: Decimal
    quota_fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`admissible`: a create would answer 201 now. `launches_stopped`: what is admitted waits for the operators.

    `best`: the offering that the lease would try first. `candidates` and `excluded` may be a part of all. `parts`: what the
    request has besides compute. `members`: equal leases that start together; amounts of quota and budgets are for all,
    and candidates have the price of one.
    `catalogue_error`: why the offerings of some regions cannot be read.
    """

    as_of: datetime
    parts: PartsRequest
    admissible: bool
    launches_stopped: bool
    best: Candidate | None
    candidates: tuple[Candidate, ...]
    candidates_count: int
    excluded: tuple[Excluded, ...]
    excluded_count: int
    excluded_groups: tuple[ExcludedGroup, ...]
    needs: tuple[Need, ...]
    budgets: tuple[BudgetNeed, ...]
    catalogue_error: str | None
    members: int = 1


WHOLE = slice(0, None)


class PlanService:
    """Answers what `LeaseCreation.create` would do."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._database = context.database
        self._catalogue = catalogue

    async def plan(self, principal: Principal, new: CreateLease, part: slice = WHOLE) -> Plan:
        """`part`: of candidates and excluded offerings.

        Raises the errors of a create, except that a short quota and no offering are part of the plan.
        """
        tenant_id = whose(principal, new.tenant_id)
        new = await with_volume_place(self._database, new, tenant_id=tenant_id, within=principal.tenant_id)
        snapshot = await self._catalogue.snapshot()
        checked = check_request(snapshot, tenant_id, new)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            state = await read_state(connection, principal, needs_of(principal, tenant_id, checked))
            await check_terms(connection, tenant_id, new.request.ttl_seconds)
            await with_ssh_keys(connection, checked.new, tenant_id=tenant_id, key_id=principal.key_id)
            if new.request.volumes:
                check_free(await find_volumes(connection, new, tenant_id=tenant_id))
            await check_name(connection, tenant_id, new.request.name)
        if checked.refusal is not None:
            raise checked.refusal
        return make_plan(checked, state, part)


async def read_state(connection: AsyncConnection, principal: Principal, needs: Needs) -> "PlanState":
    """What decides about new leases besides the catalogue."""
    rows = (await connection.execute(quota_limits.of_tenant(needs.tenant_id))).all()
    asked = budget_statements.asked_by_new(needs.parameters)
    brakes = (await connection.execute(accounts.brakes())).one()
    return PlanState(
        needs=needs,
        limits={row.resource: row.limit for row in rows},
        used={row.resource: row.used for row in rows},
        budgets=await budget_needs(connection, asked, within=principal.tenant_id),
        launches_stopped=brakes.hold is not None or brakes.launches_stopped is not None,
        operator=principal.is_operator,
    )


def make_plan(checked: CheckedRequest, state: "PlanState", part: slice) -> Plan:
    """The plan of as many equal leases as `state` is for. `checked`: without a refusal."""
    ranking, request, snapshot = checked.ranked.ranking, checked.new.request, checked.snapshot
    fitting, needs = ranking.candidates, state.quota_needs()
    term = request_term(checked.new, state.needs.tenant_id, snapshot.as_of)
    return Plan(
        as_of=snapshot.as_of,
        parts=request.parts,
        admissible=bool(fitting) and all(need.fits for need in needs) and all(budget.fits for budget in state.budgets),
        launches_stopped=state.launches_stopped,
        best=_candidate(1, fitting[0], request, state) if fitting else None,
        candidates=tuple(
            _candidate(rank, offering, request, state)
            for rank, offering in islice(enumerate(fitting, start=1), part.start, part.stop)
        ),
        candidates_count=len(fitting),
        excluded=ranking.excluded[part],
        excluded_count=len(ranking.excluded),
        excluded_groups=snapshot.near_misses(checked.new.requirements, term).groups,
        needs=needs,
        budgets=state.budgets,
        catalogue_error=snapshot.catalogue_error(operator=state.operator),
        members=state.needs.members,
    )


def _candidate(rank: int, offering: Offering, request: LeaseRequest, state: "PlanState") -> Candidate:
    rate = rate_at(offering, request.parts)
    amounts = quotas.amounts(offering, request.parts)
    asked = {resource: amount * state.needs.members for resource, amount in amounts.items()}
    return Candidate(
        rank=rank,
        offering=offering,
        rate=rate,
        disk_gib=disk_gib_at(offering, request.parts),
        price_for_term=term_cost(rate, request.ttl_seconds),
        quota_fits=not quotas.shortages(state.limits, state.used, asked),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """Limits of a tenant and their use, and what new leases need of them. `operator`: who asks."""

    needs: Needs
    limits: Mapping[str, Decimal | None]
    used: Mapping[str, Decimal]
    budgets: tuple[BudgetNeed, ...]
    launches_stopped: bool
    operator: bool

    def quota_needs(self) -> tuple[Need, ...]:
        """The resources that admission would claim for all of the leases."""
        return tuple(
            Need(
                resource=resource,
                limit=self.limits.get(resource),
                used=self.used.get(resource, Decimal(0)),
                asked=asked,
                fits=not quotas.shortages(self.limits, self.used, {resource: asked}),
            )
            for resource, asked in self.needs.total.items()
        )
