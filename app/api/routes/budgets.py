"""Budgets: what leases may cost in a period."""

from typing import Annotated

from fastapi import Query, Request, Response

from app.api.http.etags import UseIfMatch, tagged_by_content
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Admin, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas import budgets as schemas
from app.api.schemas.budgets import Budget, BudgetPage, BudgetPatch, NewBudget, budget_view
from app.api.schemas.lease_filters import QueryText
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import version_tag

router = make_router("budgets")


@router.post("/v1/budgets", status_code=201, response_model=Budget)
async def create_budget(
    request: Request, body: NewBudget, principal: Admin, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a budget.

    An admin's budget must not exceed the lowest one that the operators set for the whole tenant.
    """
    repeat = idempotency_key(request, principal, key, body)
    made = await services.budgets.create(principal, schemas.new_budget(body), repeat)
    budget = budget_view(made.values)
    return created(budget, location=f"/v1/budgets/{budget.id}", replayed=made.replayed)


@router.get("/v1/budgets", response_model=BudgetPage)
async def list_budgets(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List budgets, newest first."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    matches = await services.budgets.page(principal, tenant_id, page)
    items = [budget_view(row) for row in matches.rows]
    content = BudgetPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count)
    return tagged_by_content(request, content.model_dump_json().encode())


@router.get("/v1/budgets/{budget_id}", response_model=Budget)
async def get_budget(budget_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a budget. Its ETag changes with the budget, not with what is spent."""
    return _answered(budget_view(await services.budgets.get(principal, budget_id)))


@router.patch("/v1/budgets/{budget_id}", response_model=Budget)
async def update_budget(
    budget_id: str, body: BudgetPatch, principal: Admin, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change the amount, the thresholds or the action of a budget. Admins change only what admins have set."""
    values = body.model_dump(exclude_unset=True)
    return _answered(budget_view(await services.budgets.change(principal, budget_id, values, if_match)))


@router.delete("/v1/budgets/{budget_id}", status_code=204)
async def delete_budget(budget_id: str, principal: Admin, services: UseServices) -> Response:
    """Delete a budget. Leases go on. Admins delete only what admins have set."""
    await services.budgets.remove(principal, budget_id)
    return Response(status_code=204)


def _answered(budget: Budget) -> Response:
    return answer(budget, headers={"ETag": version_tag(budget.id, budget.version)})
