"""What leases cost by gpulease's clock, beside what providers charged."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import OPERATORS_ONLY, UseServices, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Money, Page, View
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.patterns import MONTH
from app.db.operations.reconciliation import ReconciliationFilter
from app.services.preconditions import list_tag

router = make_router("ops")


class ReconciliationKind(StrEnum):
    """What a row compares. The list may grow.

    `matched`: a charge for a resource of a lease. `cloud_only`: a charge for a resource that no lease used about that
    day. `gpulease_only`: an estimate without a charge.
    """

    MATCHED = "matched"
    CLOUD_ONLY = "cloud_only"
    GPULEASE_ONLY = "gpulease_only"


class ReconciledCharge(View):
    """One resource on one day. `difference` is `invoiced` less `estimated`."""

    kind: Annotated[ReconciliationKind, Field(description="What the comparison found. " + GROWS)]
    day: Annotated[date, Field(description="The day in UTC.")]
    provider: str
    resource_id: Annotated[str, Field(description="The VM of the lease; for `cloud_only`, as the provider names it.")]
    ours: Annotated[
        bool,
        Field(description="The resource is a lease's, or has this installation's tag. With `cloud_only`: an orphan."),
    ]
    lease_id: Annotated[str | None, Field(description="The lease, or the lease in the resource's tags.")]
    tenant_id: Annotated[str | None, Field(description="The tenant of that lease. Null: unknown.")]
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
    cloud_only: Annotated[int, Field(description="Resources with charges that no lease used.")]
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


@router.get("/v1/ops/reconciliation", response_model=Reconciliation, dependencies=[OPERATORS_ONLY])
@costly
async def get_reconciliation(
    request: Request,
    services: UseServices,
    page: UsePage,
    month: Annotated[
        str | None,
        Query(
            pattern=MONTH.regex,
            description="The month in UTC, such as `2026-11`. Default: the current one.",
            examples=["2026-11"],
        ),
    ] = None,
    tenant_id: QueryText | None = None,
    kind: Annotated[ReconciliationKind | None, Query(description="Only rows of this kind.")] = None,
) -> Response:
    """Compare what leases cost with what providers charged, for a month.

    `gpulease-server reconcile` imports the charges from the providers' own files.
    """
    first = None if month is None else date.fromisoformat(f"{month}-01")
    wanted = ReconciliationFilter(month=first, tenant_id=tenant_id, kind=kind)
    found = await services.reconciliation.read(wanted, page)
    view = Reconciliation(
        items=[_charge(row) for row in found.page.rows],
        totals=[_total(row) for row in found.totals],
        imports=[InvoiceImport.model_validate(row, from_attributes=True) for row in found.imports],
        currency="USD",
        next_cursor=found.page.next_cursor,
        total_count=found.page.total_count,
    )
    content = view.model_dump_json().encode()
    return tagged(request, content, list_tag((), also=content.decode()))


def _charge(row: Any) -> ReconciledCharge:
    names = ("kind", "day", "provider", "resource_id", "ours", "lease_id", "tenant_id", "estimated", "invoiced")
    return ReconciledCharge(**{name: getattr(row, name) for name in names}, difference=row.invoiced - row.estimated)


def _total(row: Any) -> ReconciledTotal:
    names = ("tenant_id", "leases", "estimated", "invoiced", "gpulease_only", "cloud_only", "unlisted")
    return ReconciledTotal(**{name: getattr(row, name) for name in names}, difference=row.invoiced - row.estimated)
