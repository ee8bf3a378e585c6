"""The caller's key, and the tenant that it belongs to."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from app.api.http.etags import tagged_by_content
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.routes.tenants import TenantStatus
from app.api.schemas.base import View
from app.api.schemas.idleness import IdleFloor
from app.services.principal import Role

router = make_router("me")


class OwnTenant(View):
    """The tenant of the key, with the longest terms of its leases."""

    id: Annotated[str, Field(description="The tenant's id.")]
    name: Annotated[str, Field(description="The tenant's name.")]
    status: TenantStatus
    max_ttl_seconds: Annotated[int, Field(description="Maximum `ttl_seconds` of a lease.")]
    max_total_seconds: Annotated[int, Field(description="Maximum total duration of a lease, including extensions.")]
    idle_floor: Annotated[
        IdleFloor | None, Field(description="A rule for every lease. Null: only the leases' own rules apply.")
    ]


class Me(View):
    """The key of this request."""

    key_id: Annotated[str, Field(description="The key's id.")]
    key_name: Annotated[str, Field(description="The key's name.")]
    role: Role
    tenant_id: Annotated[
        str | None, Field(description="The id of the tenant to which the key belongs. Null for operators.")
    ]
    tenant: Annotated[OwnTenant | None, Field(description="The tenant to which the key belongs. Null for operators.")]


@router.get("/v1/me", response_model=Me)
async def get_me(request: Request, principal: Viewer, services: UseServices) -> Response:
    """Return the caller's key, role and tenant."""
    tenant = await services.tenants.own(principal)
    me = Me(
        key_id=principal.key_id,
        key_name=principal.key_name,
        role=principal.role,
        tenant_id=principal.tenant_id,
        tenant=None if tenant is None else OwnTenant.model_validate(tenant),
    )
    return tagged_by_content(request, me.model_dump_json().encode())
