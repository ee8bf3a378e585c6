"""Bodies and views about tenants."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, Moment, Money, Name, Page, View
from app.api.schemas.idleness import IdleFloor
from app.api.schemas.quotas import Quota

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


class TenantUse(View):
    """A tenant with its quotas and its leases that have not ended."""

    id: str
    name: str
    status: TenantStatus
    quotas: list[Quota]
    leases: int
    gpus: Annotated[int, Field(description="GPUs of leases that have an offering.")]
    spend_per_hour: Money


class TenantUsePage(Page):
    """Tenants, newest first."""

    items: list[TenantUse]
