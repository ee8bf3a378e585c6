"""Tenants for operators."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
from fastapi import Request, Response

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.responses import ListCache
from app.api.http.routing import OPERATORS_ONLY, UseServices
from app.api.http.routing import router as make_router
from app.api.routes.quotas import quota_json
from app.api.schemas.tenants import TenantUsePage
from app.domain.money import format_money
from app.services.tenants.use import stored_quotas

router = make_router("ops")


@router.get("/v1/ops/tenants", response_model=TenantUsePage, dependencies=[OPERATORS_ONLY])
async def list_tenant_use(request: Request, services: UseServices, page: UsePage) -> Response:
    """List tenants with their quotas and running leases, newest first."""
    matches = await services.tenant_use.page(page)
    return tagged(request, *_PAGE.of(matches.rows, matches.next_cursor, matches.total_count))


def _page(rows: Sequence[dict[str, Any]], next_cursor: str | None, total_count: int | None) -> bytes:
    items = [_tenant_use(row) for row in rows]
    return orjson.dumps({"items": items, "next_cursor": next_cursor, "total_count": total_count})


_PAGE = ListCache(_page)


def _tenant_use(row: dict[str, Any]) -> dict[str, Any]:
    quotas = [quota_json(quota) for quota in stored_quotas(row["quotas"])]
    return {**row, "quotas": quotas, "spend_per_hour": format_money(Decimal(row["spend_per_hour"]))}
