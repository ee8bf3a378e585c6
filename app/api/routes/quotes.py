"""Quotes: a stored plan whose price holds for 15 minutes."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, costly
from app.api.http.routing import router as make_router
from app.api.routes.offerings import PlanCandidate, PlanQuota, Sight, plan_json, sight_of
from app.api.schemas.base import Moment, Money, View
from app.api.schemas.explanations import ExplainedExclusion
from app.api.schemas.lease_bodies import NewLease, new_lease
from app.services.plan import Plan
from app.services.preconditions import version_tag

router = make_router("quotes")

_MOST_CANDIDATES = 20


class QuotedPlan(View):
    """The plan at the time of the quote. `candidates`: at most 20 offerings that cost no more than the quoted rate."""

    admissible: Annotated[bool, Field(description="The API would have accepted a create.")]
    launches_stopped: Annotated[bool, Field(description="Operators had stopped launches; the lease would wait.")]
    candidates: list[PlanCandidate]
    excluded_by_reason: Annotated[list[ExplainedExclusion], Field(description="The largest group first.")]
    quota: PlanQuota
    as_of: Moment


class Quote(View):
    """The price of a lease that is created with `quote_id` before `valid_until`. It reserves no capacity."""

    id: str
    tenant_id: str
    plan: QuotedPlan
    price_per_hour: Annotated[
        Money,
        Field(description="USD an hour for compute at the first candidate, as in its offering."),
    ]
    rate_per_hour: Annotated[
        Money,
        Field(
            description="USD an hour at the first candidate: the VM, its network disks and its public address. A lease "
            "from the quote is launched nowhere at a higher rate."
        ),
    ]
    total: Annotated[
        Money,
        Field(description="USD for the whole term at the first candidate: the VM, its network disks and its address."),
    ]
    currency: str
    valid_until: Moment
    created_at: Moment


@router.post("/v1/quotes", status_code=201, response_model=Quote)
@costly
async def create_quote(body: NewLease, principal: Member, services: UseServices) -> Response:
    """Request a quote: the plan of a lease, and its price for 15 minutes. The call reserves nothing.

    To accept the quote, create a lease with its `quote_id`.
    """

    def quoted(plan: Plan) -> dict[str, Any]:
        # the tenant reads what an operator requests, so the plan has no details for operators alone
        return _quoted_plan(plan, replace(sight_of(services, principal, plan.as_of), operator=False))

    row = await services.quotes.create(principal, new_lease(body), quoted)
    return answer(_view(row), 201, {"Location": f"/v1/quotes/{row.id}"})


@router.get("/v1/quotes/{quote_id}", response_model=Quote)
async def get_quote(request: Request, quote_id: str, principal: Member, services: UseServices) -> Response:
    """Read a quote. An expired quote can be read for seven days."""
    row = await services.quotes.get(principal, quote_id)
    return tagged(request, _view(row), version_tag(row.id, 1))


def _quoted_plan(plan: Plan, sight: Sight) -> dict[str, Any]:
    json = plan_json(replace(plan, candidates=plan.candidates[:_MOST_CANDIDATES], excluded=()), sight)
    return {name: json[name] for name in QuotedPlan.model_fields}


def _view(row: Any) -> Quote:
    return Quote(
        id=row.id,
        tenant_id=row.tenant_id,
        plan=row.plan,
        price_per_hour=row.price_per_hour,
        rate_per_hour=row.rate_per_hour,
        total=row.total,
        currency="USD",
        valid_until=row.valid_until,
        created_at=row.created_at,
    )
