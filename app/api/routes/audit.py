"""The audit trail."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas import patterns
from app.api.schemas.audit import AuditEntry, AuditPage
from app.api.schemas.base import Timestamp
from app.api.schemas.lease_filters import QueryText
from app.domain.list_filters import AuditFilter
from app.services.preconditions import list_tag

router = make_router("audit")


async def _filter(
    types: Annotated[
        list[Annotated[str, Field(max_length=50, pattern=patterns.AUDIT_ACTION.regex)]] | None,
        Query(alias="type", max_length=50, description="Only entries with this `action`. Repeatable."),
    ] = None,
    about: Annotated[
        QueryText | None, Query(description="Only entries with this `target`, for example a lease id.")
    ] = None,
    created_after: Annotated[Timestamp | None, Query(description="Only entries after this time.")] = None,
    created_before: Annotated[Timestamp | None, Query(description="Only entries before this time.")] = None,
) -> AuditFilter:
    return AuditFilter(
        types=frozenset(types or ()), about=about, created_after=created_after, created_before=created_before
    )


@router.get("/v1/audit", response_model=AuditPage)
async def list_audit(
    request: Request,
    principal: Admin,
    services: UseServices,
    page: UsePage,
    criteria: Annotated[AuditFilter, Depends(_filter)],
) -> Response:
    """List audit entries, newest first. Operators see all tenants; admins see their own tenant."""
    matches = await services.audit.entries(principal, criteria, page)
    items = [AuditEntry.model_validate(row) for row in matches.rows]
    tag = list_tag(((row["id"], 1) for row in matches.rows), also=matches.position)
    return tagged(
        request, AuditPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count), tag
    )
