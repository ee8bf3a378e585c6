"""Quotas: the limits of a tenant's concurrent use."""

from decimal import Decimal
from typing import Any

from fastapi import Request, Response

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.responses import answer
from app.api.http.routing import Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.quotas import Quota, QuotaChanges, QuotaLimits, QuotaList
from app.domain.quotas import json_amount, json_limit
from app.services.tenants.quotas import tag

router = make_router("quotas")


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
    """Replace all limits. A limit below the current use ends no lease; it only blocks new leases."""
    rows = await services.quotas.replace_limits(principal, tenant_id, _limits(body), if_match)
    return answer(_view(rows), headers={"ETag": tag(rows)})


@router.patch("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def change_quotas(
    tenant_id: str, body: QuotaChanges, principal: Operator, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change some limits. A limit below the current use ends no lease; it only blocks new leases."""
    rows = await services.quotas.change_limits(principal, tenant_id, _limits(body), if_match)
    return answer(_view(rows), headers={"ETag": tag(rows)})


def _limits(body: QuotaLimits | QuotaChanges) -> dict[str, Decimal | None]:
    return {limit.resource: None if limit.limit is None else Decimal(limit.limit) for limit in body.limits}


def _tagged(request: Request, rows: list[dict[str, Any]]) -> Response:
    return tagged(request, _view(rows), tag(rows))


def _view(rows: list[dict[str, Any]]) -> QuotaList:
    return QuotaList(items=[Quota(**quota_json(row)) for row in rows], next_cursor=None)


def quota_json(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a row of QuotaService to a Quota."""
    resource = row["resource"]
    return {
        "resource": resource,
        "limit": json_limit(resource, row["limit"]),
        "used": json_amount(resource, row["used"]),
        "available": json_limit(resource, row["available"]),
    }
