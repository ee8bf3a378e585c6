"""A tenant at a glance."""

from decimal import Decimal
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.responses import to_bytes
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_filters import QueryText
from app.domain.attention import AttentionCode
from app.domain.leases import LeaseState
from app.domain.money import format_money
from app.domain.rates import CostScope
from app.services.preconditions import list_tag
from app.services.summary import TenantSummary

router = make_router("usage")


class LiveStateCount(View):
    """Leases that have not ended, in one state. `gpus` counts leases that have an offering."""

    state: LeaseState
    leases: int
    gpus: int


class AttentionItem(View):
    """Something to look at: a lease, or a quota of which nine tenths are used."""

    code: Annotated[AttentionCode, Field(description="Why it needs attention. " + GROWS)]
    tenant_id: str
    lease_id: Annotated[str | None, Field(description="Null for a quota.")]
    name: Annotated[str, Field(description="The name of the lease, or the resource of the quota.")]
    created_at: Annotated[Moment | None, Field(description="When it began to need attention. Null for a quota.")]
    expires_at: Annotated[Moment | None, Field(description="When the lease expires, for `expiring_soon`.")]
    message: str | None


class Attention(View):
    """What needs attention, the most urgent first. `total` counts those beyond `items` too."""

    total: int
    items: list[AttentionItem]


class Summary(View):
    """Leases that have not ended, their cost, and what needs attention."""

    as_of: Annotated[Moment, Field(description="Amounts are counted until then. It changes once a minute.")]
    tenant_id: Annotated[str | None, Field(description="Null: all tenants.")]
    leases: int
    gpus: int
    by_state: list[LiveStateCount]
    spend_per_hour: Money
    spend_month_to_date: Annotated[Money, Field(description="USD since the month began (UTC).")]
    accrued: Annotated[Money, Field(description="USD of the leases that have not ended, since each of them started.")]
    currency: Annotated[str, Field(examples=["USD"])]
    covers: Annotated[str, Field(description="What the amounts contain.", examples=[CostScope.VM])]
    attention: Attention


@router.get("/v1/summary", response_model=Summary)
async def get_summary(
    request: Request,
    principal: Viewer,
    services: UseServices,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
) -> Response:
    """Read the leases of the key's tenant by state, their GPUs and spend, and what needs attention.

    Failed leases need attention for 24 hours.
    """
    content = to_bytes(_summary(await services.summary.of_tenant(principal, tenant_id)))
    return tagged(request, content, list_tag((), also=content.decode()))


def _summary(found: TenantSummary) -> dict[str, Any]:
    counts = found.counts
    return {
        "as_of": found.as_of,
        "tenant_id": found.tenant_id,
        "leases": sum(row.leases for row in counts),
        "gpus": sum(row.gpus for row in counts),
        "by_state": [{"state": row.state, "leases": row.leases, "gpus": row.gpus} for row in counts],
        "spend_per_hour": format_money(sum((row.spend_per_hour for row in counts), Decimal(0))),
        "spend_month_to_date": format_money(found.spend_of_month),
        "accrued": format_money(sum((row.accrued for row in counts), Decimal(0))),
        "currency": "USD",
        "covers": CostScope.VM,
        "attention": {"total": found.attention_total, "items": [_attention(row) for row in found.attention]},
    }


def _attention(row: Any) -> dict[str, Any]:
    names = ("code", "tenant_id", "lease_id", "name", "created_at", "expires_at", "message")
    return {name: getattr(row, name) for name in names}
