"""Tenants."""

from fastapi import Request, Response

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import OPERATORS_ONLY, Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.tenants import NewTenant, Tenant, TenantPage, TenantPatch
from app.services.preconditions import list_tag, version_tag
from app.services.tenants.tenants import TenantChange

router = make_router("tenants")


@router.post("/v1/tenants", status_code=201, response_model=Tenant)
async def create_tenant(
    request: Request, body: NewTenant, principal: Operator, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a tenant."""
    repeat = idempotency_key(request, principal, key, body)
    made = await services.tenants.create(principal, body.model_dump(exclude_none=True), repeat)
    tenant = Tenant.model_validate(made.values)
    return created(tenant, location=f"/v1/tenants/{tenant.id}", replayed=made.replayed)


@router.get("/v1/tenants", response_model=TenantPage, dependencies=[OPERATORS_ONLY])
async def list_tenants(request: Request, services: UseServices, page: UsePage) -> Response:
    """List tenants, newest first."""
    matches = await services.tenants.page(page)
    tag = list_tag(((row["id"], row["version"]) for row in matches.rows), also=matches.position)
    items = [Tenant.model_validate(row) for row in matches.rows]
    return tagged(
        request, TenantPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count), tag
    )


@router.get("/v1/tenants/{tenant_id}", response_model=Tenant)
async def get_tenant(request: Request, tenant_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a tenant. Every key may read its own tenant; operators read any."""
    row = await services.tenants.get(principal, tenant_id)
    return tagged(request, Tenant.model_validate(row), version_tag(row["id"], row["version"]))


@router.patch("/v1/tenants/{tenant_id}", response_model=Tenant)
async def update_tenant(
    tenant_id: str, body: TenantPatch, principal: Operator, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change, suspend or resume a tenant."""
    values = body.model_dump(exclude_none=True, exclude={"end_leases"}, mode="json")
    change = TenantChange(values=values, end_leases=body.end_leases)
    row = await services.tenants.change(principal, tenant_id, change, if_match)
    return answer(Tenant.model_validate(row), headers={"ETag": version_tag(row["id"], row["version"])})
