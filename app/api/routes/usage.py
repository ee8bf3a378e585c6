"""Use and cost over time."""

from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Timestamp, to_bytes
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.usage import Usage
from app.domain.money import format_money
from app.domain.rates import CostScope
from app.domain.usage import UsageGrouping, UsageStep
from app.services.money.usage import Sums, UsageQuery, UsageReport, gpu_hours, volume_gib_hours
from app.services.preconditions import list_tag

router = make_router("usage")

_HOUR = timedelta(hours=1)
_COUNTS = ("leases_created", "leases_ready", "leases_failed", "capacity_failures", "interruptions")


@router.get("/v1/usage", response_model=Usage)
@costly
async def get_usage(  # noqa: PLR0913, PLR0917 - one argument for each query parameter
    request: Request,
    principal: Viewer,
    services: UseServices,
    from_: Annotated[
        Timestamp | None,
        Query(alias="from", description="The start, rounded down to a step. 24 hours before `to` by default."),
    ] = None,
    to: Annotated[Timestamp | None, Query(description="The end, rounded up to a step. Now by default.")] = None,
    step: Annotated[
        UsageStep, Query(description="Hours cover at most 31 days, days at most 400 days. Days are those of UTC.")
    ] = UsageStep.HOUR,
    group_by: Annotated[UsageGrouping, Query(description="What to divide each step by.")] = UsageGrouping.NONE,
    top: Annotated[
        int, Query(ge=1, le=50, description="Groups with the largest cost; the others are summed up as `other`.")
    ] = 10,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
) -> Response:
    """Read use and cost over time: cost, GPUs, time to ready and failures for each hour or day.

    Operators see all tenants; a tenant sees itself.
    """
    query = UsageQuery(since=from_, until=to, step=step, grouping=group_by, tenant_id=tenant_id, top=top)
    return tagged(request, *_rendered(await services.usage.report(principal, query), group_by))


@lru_cache(maxsize=64)
def _rendered(report: UsageReport, group_by: UsageGrouping) -> tuple[bytes, str]:
    """The response and its ETag, rendered once for all readers of the same report."""
    content = to_bytes(_usage(report, group_by))
    return content, list_tag((), also=content.decode())


def _usage(report: UsageReport, group_by: UsageGrouping) -> dict[str, Any]:
    return {
        "starts_at": report.period.since,
        "ends_at": report.period.until,
        "step": report.period.step,
        "group_by": group_by,
        "as_of": report.as_of,
        "currency": "USD",
        "covers": CostScope.VM,
        "groups": [{"group": group.group, "name": group.name, **_sums(group.sums)} for group in report.groups],
        "items": [_item(item.starts_at, item.covered, item.group, item.sums) for item in report.items],
        "next_cursor": None,
    }


def _item(starts_at: datetime, covered: timedelta, group: str | None, sums: Sums) -> dict[str, Any]:
    hours = Decimal(covered // timedelta(seconds=1)) / (_HOUR // timedelta(seconds=1)) or Decimal(1)
    return {
        "starts_at": starts_at,
        "group": group,
        **_sums(sums),
        "gpus": round(float(gpu_hours(sums) / hours), 3),
        "spend_per_hour": format_money(sums["cost"] / hours),
        "ready_seconds_p50": sums["ready_seconds_p50"],
        "ready_seconds_p95": sums["ready_seconds_p95"],
    }


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "cost": format_money(Decimal(sums["cost"])),
        "gpu_hours": round(float(gpu_hours(sums)), 6),
        "volume_gib_hours": round(float(volume_gib_hours(sums)), 6),
        **{name: sums[name] for name in _COUNTS},
    }
