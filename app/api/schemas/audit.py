"""Bodies and views about the audit log."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Details, Moment, Page, View


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
    principal_name: Annotated[
        str | None, Field(description="The name of that key. Null for tenants, if it is an operator's.")
    ]
    role: Annotated[str, Field(description="The key's role, or `system`.")]
    action: Annotated[str, Field(description="What was done, for example `key.revoke`. The list may grow.")]
    target: Annotated[str | None, Field(description="What was changed: an id, or a name.")]
    target_name: Annotated[
        str | None, Field(description="The present name of the lease, group, volume, key or tenant.")
    ]
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
