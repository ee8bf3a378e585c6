"""Bodies and views about the reconciliation of invoices."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, Page, View
from app.api.schemas.hardware import GROWS


class ReconciliationKind(StrEnum):
    """What a row compares. The list may grow.

    `matched`: a charge for a resource of a lease, or for a volume. `cloud_only`: a charge for a resource that no lease
    used about that day, and that is no volume. `gpulease_only`: an estimate without a charge.
    """

    MATCHED = "matched"
    CLOUD_ONLY = "cloud_only"
    GPULEASE_ONLY = "gpulease_only"


class ReconciledCharge(View):
    """One resource on one day. `difference` is `invoiced` less `estimated`."""

    kind: Annotated[ReconciliationKind, Field(description="What the comparison found. " + GROWS)]
    day: Annotated[date, Field(description="The day in UTC.")]
    provider: str
    resource_id: Annotated[
        str, Field(description="The VM of the lease, or the volume's disk; for `cloud_only`, as the provider names it.")
    ]
    ours: Annotated[
        bool,
        Field(
            description="The resource is a lease's or a volume's, or has this installation's tag. With `cloud_only`: an orphan."
        ),
    ]
    lease_id: Annotated[str | None, Field(description="The lease, or the lease in the resource's tags.")]
    volume_id: Annotated[str | None, Field(description="The volume, or the volume in the disk's tags.")]
    tenant_id: Annotated[str | None, Field(description="The tenant of that lease or volume. Null: unknown.")]
    estimated: Money
    invoiced: Money
    difference: Money


class ReconciledTotal(View):
    """The sums of a tenant. A null `tenant_id` stands for charges that belong to no tenant."""

    tenant_id: str | None
    leases: int
    estimated: Money
    invoiced: Money
    difference: Money
    gpulease_only: Annotated[int, Field(description="Days of resources with an estimate and without a charge.")]
    cloud_only: Annotated[int, Field(description="Resources with charges that belong to no lease and no volume.")]
    unlisted: Annotated[int, Field(description="Those of them that have this installation's tag: orphans.")]


class InvoiceImport(View):
    """A file that the comparison is made of."""

    id: str
    file_name: str
    provider: str
    billing_accounts: list[str]
    first_day: Annotated[date | None, Field(description="The first day of its charges.")]
    last_day: Annotated[date | None, Field(description="The last day. Estimates of later days are not compared.")]
    lines: int
    imported_at: Moment


class Reconciliation(Page):
    """The comparison of one month, by day, provider and resource. `totals` cover all pages."""

    items: list[ReconciledCharge]
    totals: list[ReconciledTotal]
    imports: list[InvoiceImport]
    currency: str
