"""Tenants."""

from enum import StrEnum
from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import OPERATORS_ONLY, Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Body, Moment, Name, Page, View
from app.api.schemas.idleness import IdleFloor
from app.services.preconditions import list_tag, version_tag
from app.services.tenants import TenantChange

router = make_router("tenants")

Term = Annotated[int, Field(ge=60, le=31_536_000)]


class TenantStatus(StrEnum):
    """The state of a tenant. The list may grow.

    A suspended tenant gets no VM and no more time for one. It can only end or restrict what it has. A lease
    that loses its VM ends with `tenant_suspended`.
    """

    ACTIVE = "active"
    SUSPENDED = "suspended"


class NewTenant(Body):
    """A tenant to create. Without terms, the tenant gets the installation's defaults.

    Without quotas, the tenant cannot lease.
    """

    name: Name
    max_ttl_seconds: Annotated[Term | None, Field(description="Maximum `ttl_seconds` of a lease.")] = None
    max_total_seconds: Annotated[
        Term | None, Field(description="Maximum total duration of a lease, including extensions.")
    ] = None


class TenantPatch(Body):
    """Absent or null fields stay unchanged."""

    name: Name | None = None
    max_ttl_seconds: Term | None = None
    max_total_seconds: Term | None = None
    status: Annotated[TenantStatus | None, Field(strict=False)] = None
    end_leases: Annotated[
        bool,
        Field(description="When suspending a tenant, also end its running leases. Queued leases end in any case."),
    ] = False


class Tenant(View):
    """A tenant, which owns leases and keys."""

    id: str
    name: str
    status: TenantStatus
    max_ttl_seconds: int
    max_total_seconds: int
    idle_floor: Annotated[IdleFloor | None, Field(description="Null: only the leases' own rules apply.")]
    version: int
    created_at: Moment
    updated_at: Moment


class TenantPage(Page):
    """A page of tenants, newest first."""

    items: list[Tenant]


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
    found = await services.tenants.page(page)
    tag = list_tag(((row["id"], row["version"]) for row in found.rows), also=found.position)
    items = [Tenant.model_validate(row) for row in found.rows]
    return tagged(request, TenantPage(items=items, next_cursor=found.next_cursor, total_count=found.total_count), tag)


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
