"""The caller's key."""

from fastapi import Request, Response

from app.api.http.etags import tagged_by_content
from app.api.http.routing import Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import View
from app.services.principal import Role

router = make_router("me")


class Me(View):
    """The key of this request. `tenant_id` is null for operators."""

    key_id: str
    key_name: str
    role: Role
    tenant_id: str | None


@router.get("/v1/me", response_model=Me)
async def get_me(request: Request, principal: Viewer) -> Response:
    """Return the caller's key, role and tenant."""
    me = Me(
        key_id=principal.key_id,
        key_name=principal.key_name,
        role=principal.role,
        tenant_id=principal.tenant_id,
    )
    return tagged_by_content(request, me.model_dump_json().encode())
