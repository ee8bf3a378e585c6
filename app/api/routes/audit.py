"""The audit trail."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas import patterns
from app.api.schemas.base import Details, Moment, Page, Timestamp, View
from app.api.schemas.lease_filters import QueryText
from app.db.tenancy.audit import AuditFilter
from app.services.preconditions import list_tag

router = make_router("audit")


class AuditEntry(View):
    """One change, and who made it."""

    id: Annotated[str, Field(description="The entry's id.")]
    created_at: Annotated[Moment, Field(description="When the change was made.")]
    tenant_id: Annotated[str | None, Field(description="The tenant that the change concerns. Null: the installation.")]
    principal: Annotated[
        str,
        Field(
            description="The id of the key that made the change, or `system`. For tenants: `operator` for an operator's key."
        ),
    ]
    role: Annotated[str, Field(description="The key's role, or `system`.")]
    action: Annotated[str, Field(description="What was done, for example `key.revoke`. The list may grow.")]
    target: Annotated[str | None, Field(description="What was changed: an id, or a name.")]
    before: Annotated[Details | None, Field(description="The changed values before the change.")]
    after: Annotated[Details | None, Field(description="The changed values after the change.")]
    address: Annotated[
        str | None,
        Field(description="The address from which the request came. Null for tenants, if it is an operator's."),
    ]
    request_id: Annotated[
        str | None, Field(description="The request that made the change. Null for tenants, if it is an operator's.")
    ]


class AuditPage(Page):
    """A page of audit entries, newest first."""

    items: list[AuditEntry]


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
    wanted: Annotated[AuditFilter, Depends(_filter)],
) -> Response:
    """List audit entries, newest first. Operators see all tenants; admins see their own tenant."""
    found = await services.audit.entries(principal, wanted, page)
    items = [AuditEntry.model_validate(row) for row in found.rows]
    tag = list_tag(((row["id"], 1) for row in found.rows), also=found.position)
    return tagged(request, AuditPage(items=items, next_cursor=found.next_cursor, total_count=found.total_count), tag)
