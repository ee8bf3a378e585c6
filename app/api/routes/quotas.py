"""Quotas: the limits of a tenant's concurrent use."""

from decimal import Decimal
from typing import Annotated, Any, Self

from fastapi import Request, Response
from pydantic import AfterValidator, Field, model_validator

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.responses import answer
from app.api.http.routing import Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Body, DecimalText, View
from app.api.schemas.patterns import QUOTA_RESOURCE
from app.domain.money import format_money
from app.domain.quotas import SPEND_PER_HOUR, is_valid_resource
from app.services.quotas import tag

router = make_router("quotas")


def _resource(name: str) -> str:
    if not is_valid_resource(name):
        raise ValueError("must be gpus, gpus:<model>, leases or spend_per_hour")
    return name


class QuotaLimit(Body):
    """One limit. All values are whole numbers, except `spend_per_hour` (USD)."""

    resource: Annotated[
        str,
        Field(max_length=64, pattern=QUOTA_RESOURCE.regex, examples=["gpus", "gpus:A100", "spend_per_hour"]),
        AfterValidator(_resource),
    ]
    limit: Annotated[
        DecimalText | None,
        Field(description="Null removes the limit. For `gpus`, null means that no GPU is allowed."),
    ]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.limit is not None and self.resource != SPEND_PER_HOUR and self.limit != int(self.limit):
            raise ValueError(f"the limit of {self.resource} must be a whole number")
        return self


class QuotaLimits(Body):
    """The limits to set. Other resources keep their limits."""

    limits: Annotated[list[QuotaLimit], Field(max_length=100)]

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        names = [one.resource for one in self.limits]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"limits: {twice[0]} is named twice")
        return self


class Quota(View):
    """A resource. `limit` null means unlimited, except for `gpus`: without a limit, no GPU is allowed."""

    resource: str
    limit: str | None
    used: str
    available: Annotated[str | None, Field(description="Null: unlimited.")]


class QuotaList(View):
    """All resources that have a limit or are in use."""

    items: list[Quota]
    next_cursor: Annotated[str | None, Field(description="Always null: there is one page.")]


@router.get("/v1/quotas", response_model=QuotaList)
async def get_own_quotas(request: Request, principal: Viewer, services: UseServices) -> Response:
    """Read the limits of the key's own tenant, and their current use."""
    return _tagged(request, await services.quotas.own(principal))


@router.get("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def get_quotas(request: Request, tenant_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a tenant's limits, and their current use."""
    return _tagged(request, await services.quotas.of_tenant(principal, tenant_id))


@router.put("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def set_quotas(
    tenant_id: str, body: QuotaLimits, principal: Operator, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Set limits. A limit below the current use ends no lease; it only blocks new leases."""
    limits = {one.resource: one.limit for one in body.limits}
    rows = await services.quotas.set_limits(principal, tenant_id, limits, if_match)
    return answer(_view(rows), headers={"ETag": tag(rows)})


def _tagged(request: Request, rows: list[dict[str, Any]]) -> Response:
    return tagged(request, _view(rows), tag(rows))


def _view(rows: list[dict[str, Any]]) -> QuotaList:
    return QuotaList(items=[Quota(**quota_json(row)) for row in rows], next_cursor=None)


def quota_json(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a row of QuotaService to a Quota."""
    resource = row["resource"]
    return {
        "resource": resource,
        "limit": _amount(resource, row["limit"]),
        "used": format_amount(resource, row["used"]),
        "available": _amount(resource, row["available"]),
    }


def _amount(resource: str, value: Decimal | None) -> str | None:
    return None if value is None else format_amount(resource, value)


def format_amount(resource: str, value: Decimal) -> str:
    """USD with decimals; every other resource as a whole number."""
    return format_money(value) if resource == SPEND_PER_HOUR else f"{value:.0f}"
