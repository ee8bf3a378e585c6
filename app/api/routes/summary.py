"""A tenant at a glance."""

from decimal import Decimal
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import to_bytes
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.summary import Summary
from app.domain.money import format_money
from app.domain.rates import CostScope
from app.services.preconditions import list_tag
from app.services.summary import TenantSummary

router = make_router("usage")


@router.get("/v1/summary", response_model=Summary)
async def get_summary(
    request: Request,
    principal: Viewer,
    services: UseServices,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
) -> Response:
    """Read the leases of the key's tenant by state, their GPUs, the spend, and what needs attention.

    Failed leases need attention for 24 hours.
    """
    content = to_bytes(_summary(await services.summary.of_tenant(principal, tenant_id)))
    return tagged(request, content, list_tag((), also=content.decode()))


def _summary(summary: TenantSummary) -> dict[str, Any]:
    counts = summary.counts
    return {
        "as_of": summary.as_of,
        "tenant_id": summary.tenant_id,
        "leases": sum(row.leases for row in counts),
        "gpus": sum(row.gpus for row in counts),
        "by_state": [{"state": row.state, "leases": row.leases, "gpus": row.gpus} for row in counts],
        "spend_per_hour": format_money(sum((row.spend_per_hour for row in counts), summary.volume_rate)),
        "spend_month_to_date": format_money(summary.spend_of_month),
        "accrued": format_money(sum((row.accrued for row in counts), Decimal(0))),
        "currency": "USD",
        "covers": CostScope.VM,
        "attention": {"total": summary.attention_total, "items": [_attention(row) for row in summary.attention]},
    }


def _attention(row: Any) -> dict[str, Any]:
    names = ("code", "tenant_id", "lease_id", "name", "created_at", "expires_at", "message")
    return {name: getattr(row, name) for name in names}
