"""Bodies and views about the caller."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import View
from app.api.schemas.idleness import IdleFloor
from app.api.schemas.tenants import TenantStatus
from app.services.principal import Role


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
