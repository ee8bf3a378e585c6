"""What leases and volumes cost by gpulease's clock, beside what providers charged."""

from datetime import date
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.routing import OPERATORS_ONLY, UseServices, costly
from app.api.http.routing import router as make_router
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.patterns import MONTH
from app.api.schemas.reconciliation import (
    InvoiceImport,
    ReconciledCharge,
    ReconciledTotal,
    Reconciliation,
    ReconciliationKind,
)
from app.domain.list_filters import ReconciliationFilter
from app.services.preconditions import list_tag

router = make_router("ops")


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
    """Compare what leases and volumes cost with what providers charged, for a month.

    `gpulease-server reconcile` imports the charges from the providers' own files.
    """
    first = None if month is None else date.fromisoformat(f"{month}-01")
    criteria = ReconciliationFilter(month=first, tenant_id=tenant_id, kind=kind)
    reconciliation = await services.reconciliation.read(criteria, page)
    view = Reconciliation(
        items=[_charge(row) for row in reconciliation.page.rows],
        totals=[_total(row) for row in reconciliation.totals],
        imports=[InvoiceImport.model_validate(row, from_attributes=True) for row in reconciliation.imports],
        currency="USD",
        next_cursor=reconciliation.page.next_cursor,
        total_count=reconciliation.page.total_count,
    )
    content = view.model_dump_json().encode()
    return tagged(request, content, list_tag((), also=content.decode()))


def _charge(row: Any) -> ReconciledCharge:
    place = ("kind", "day", "provider", "resource_id", "ours")
    names = (*place, "lease_id", "volume_id", "tenant_id", "estimated", "invoiced")
    return ReconciledCharge(**{name: getattr(row, name) for name in names}, difference=row.invoiced - row.estimated)


def _total(row: Any) -> ReconciledTotal:
    names = ("tenant_id", "leases", "estimated", "invoiced", "gpulease_only", "cloud_only", "unlisted")
    return ReconciledTotal(**{name: getattr(row, name) for name in names}, difference=row.invoiced - row.estimated)
