"""The audit trail."""

from fastapi import Request, Response

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.base import Details, Moment, View
from app.services.preconditions import list_tag

router = make_router("audit")


class AuditEntry(View):
    """One change. `action` is an open list, for example `key.revoke`. `before` and `after` show the changed values."""

    id: str
    at: Moment
    tenant_id: str | None
    principal: str
    role: str
    action: str
    target: str | None
    before: Details | None
    after: Details | None
    address: str | None
    request_id: str | None


class AuditPage(View):
    """A page of audit entries, newest first."""

    items: list[AuditEntry]
    next_cursor: str | None


@router.get("/v1/audit", response_model=AuditPage)
async def list_audit(request: Request, principal: Admin, services: UseServices, page: UsePage) -> Response:
    """List audit entries, newest first. Operators see all tenants; admins see their own tenant."""
    rows, next_cursor = await services.audit.entries(principal, page)
    items = [AuditEntry.model_validate(row) for row in rows]
    return tagged(request, AuditPage(items=items, next_cursor=next_cursor), list_tag((row["id"], 1) for row in rows))
