"""Tenants for operators."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

import orjson
from fastapi import Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.responses import Rendered
from app.api.http.routing import OPERATORS_ONLY, UseServices
from app.api.http.routing import router as make_router
from app.api.routes.quotas import Quota, quota_json
from app.api.routes.tenants import TenantStatus
from app.api.schemas.base import Money, Page, View
from app.domain.money import format_money
from app.services.tenant_use import stored_quotas

router = make_router("ops")


class TenantUse(View):
    """A tenant with its quotas and its leases that have not ended."""

    id: str
    name: str
    status: TenantStatus
    quotas: list[Quota]
    leases: int
    gpus: Annotated[int, Field(description="GPUs of leases that have an offering.")]
    spend_per_hour: Money


class TenantUsePage(Page):
    """Tenants, newest first."""

    items: list[TenantUse]


@router.get("/v1/ops/tenants", response_model=TenantUsePage, dependencies=[OPERATORS_ONLY])
async def list_tenant_use(request: Request, services: UseServices, page: UsePage) -> Response:
    """List tenants with their quotas and running leases, newest first."""
    found = await services.tenant_use.page(page)
    return tagged(request, *_PAGE.of(found.rows, found.next_cursor, found.total_count))


def _page(rows: Sequence[dict[str, Any]], next_cursor: str | None, total_count: int | None) -> bytes:
    items = [_tenant_use(row) for row in rows]
    return orjson.dumps({"items": items, "next_cursor": next_cursor, "total_count": total_count})


_PAGE = Rendered(_page)


def _tenant_use(row: dict[str, Any]) -> dict[str, Any]:
    quotas = [quota_json(one) for one in stored_quotas(row["quotas"])]
    return {**row, "quotas": quotas, "spend_per_hour": format_money(Decimal(row["spend_per_hour"]))}
