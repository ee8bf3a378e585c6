"""Quotes: a stored plan whose price holds for 15 minutes."""

from dataclasses import replace
from typing import Any

from fastapi import Request, Response

from app.api.http.etags import tagged
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, costly
from app.api.http.routing import router as make_router
from app.api.routes.offerings import ReaderContext, plan_json, sight_of
from app.api.schemas.lease_bodies import NewLease, new_lease
from app.api.schemas.quotes import Quote, QuotedPlan
from app.services.offerings.plan import Plan
from app.services.preconditions import version_tag

router = make_router("quotes")

_MOST_CANDIDATES = 20


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


def _quoted_plan(plan: Plan, sight: ReaderContext) -> dict[str, Any]:
    json = plan_json(replace(plan, candidates=plan.candidates[:_MOST_CANDIDATES], excluded=()), sight)
    return {name: json[name] for name in QuotedPlan.model_fields}


def _view(row: Any) -> Quote:
    return Quote(
        id=row.id,
        tenant_id=row.tenant_id,
        plan=row.plan,
        price_per_hour=row.price_per_hour,
        parts=row.plan["candidates"][0]["offering"]["parts"],
        total=row.total,
        currency="USD",
        valid_until=row.valid_until,
        created_at=row.created_at,
    )
