"""Bodies and views about the summary of a tenant."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import GROWS
from app.domain.attention import AttentionCode
from app.domain.leases import LeaseState
from app.domain.rates import CostScope


class LiveStateCount(View):
    """Leases that have not ended, in one state. `gpus` counts leases that have an offering."""

    state: LeaseState
    leases: int
    gpus: int


class AttentionItem(View):
    """Something to look at: a lease, or a quota of which nine tenths are used."""

    code: Annotated[AttentionCode, Field(description="Why it needs attention. " + GROWS)]
    tenant_id: str
    lease_id: Annotated[str | None, Field(description="Null for a quota.")]
    name: Annotated[str, Field(description="The name of the lease, or the resource of the quota.")]
    created_at: Annotated[Moment | None, Field(description="When it began to need attention. Null for a quota.")]
    expires_at: Annotated[Moment | None, Field(description="When the lease expires, for `expiring_soon`.")]
    message: str | None


class Attention(View):
    """What needs attention, the most urgent first. `total` counts those beyond `items` too."""

    total: int
    items: list[AttentionItem]


class Summary(View):
    """Leases that have not ended, their cost, and what needs attention."""

    as_of: Annotated[Moment, Field(description="Amounts are counted until then. It changes once a minute.")]
    tenant_id: Annotated[str | None, Field(description="Null: all tenants.")]
    leases: int
    gpus: int
    by_state: list[LiveStateCount]
    spend_per_hour: Annotated[Money, Field(description="USD an hour of leases and volumes that are billed now.")]
    spend_month_to_date: Annotated[Money, Field(description="USD since the month began (UTC).")]
    accrued: Annotated[Money, Field(description="USD of the leases that have not ended, since each of them started.")]
    currency: Annotated[str, Field(examples=["USD"])]
    covers: Annotated[str, Field(description="What the amounts contain.", examples=[CostScope.VM])]
    attention: Attention
