"""The caller's key, and the tenant that it belongs to."""

from fastapi import Request, Response

from app.api.http.etags import tagged_by_content
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.me import Me, OwnTenant

router = make_router("me")


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
