"""Costs over time."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from app.api.http.etags import tagged
from app.api.http.negotiation import CSV, accepts_gzip, prefers_csv
from app.api.http.routing import Admin, UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Timestamp, to_bytes
from app.api.schemas.costs import Costs
from app.api.schemas.lease_filters import QueryText
from app.domain.costs import CostBucket, CostGrouping, group_name, parse_groupings
from app.domain.money import format_money
from app.domain.spreadsheets import inert_text
from app.services.cursors import LARGEST_LIMIT, PageRequest
from app.services.errors import FieldError, InvalidRequest
from app.services.money.costs import Amounts, CostQuery, CostReport, cost_of
from app.services.preconditions import list_tag

router = make_router("costs")

_AMOUNTS = (
    *("cost", "compute", "disk", "address", "list_cost", "savings"),
    *("gpu_hours", "idle_gpu_hours", "idle_cost", "leases"),
)
_FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            CSV: {
                "schema": {"type": "string", "description": "A header, and a line for each bucket and group."},
                "example": "start,tenant,cost,…\r\n2026-12-01T00:00:00Z,tenant_01jz0000000000000000000001,24.14,…\r\n",
            }
        }
    }
}
_FOCUS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "FOCUS 1.2 as CSV, with a header line.",
        "content": {
            CSV: {
                "schema": {"type": "string"},
                "example": "AvailabilityZone,BilledCost,…\nus-east-1a,1.006,…\n",
            }
        },
    }
}


@router.get("/v1/costs", response_model=Costs, responses=_FORMS)
@costly
async def get_costs(  # noqa: PLR0913, PLR0917 - one argument for each query parameter
    request: Request,
    principal: Viewer,
    services: UseServices,
    from_: Annotated[
        Timestamp | None,
        Query(
            alias="from",
            description="The start, rounded down to a bucket. By default 24 hours, 30 days or 12 months before `to`.",
        ),
    ] = None,
    to: Annotated[Timestamp | None, Query(description="The end, rounded up to a bucket. Now by default.")] = None,
    bucket: Annotated[
        CostBucket, Query(description="Hours cover at most 31 days. Buckets are those of UTC.")
    ] = CostBucket.DAY,
    group_by: Annotated[
        QueryText,
        Query(
            description="At most two of `tenant`, `provider`, `region`, `gpu_model`, `market`, `instance_type`, `lease` "
            "and `label:KEY`, separated by a comma.",
            examples=["tenant,gpu_model"],
        ),
    ] = "",
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="Items in one page.")] = LARGEST_LIMIT,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=1000)] = None,
) -> Response:
    """Read costs over time, as JSON or as CSV (`Accept: text/csv`). CSV contains all pages.

    Operators see all tenants; a tenant sees itself.
    """
    query = CostQuery(since=from_, until=to, bucket=bucket, groupings=_groupings(group_by), tenant_id=tenant_id)
    if prefers_csv(request):
        report = await services.costs.all_rows(principal, query)
        text = _csv(report, query.groupings)
        return Response(text, media_type=CSV, headers={"ETag": list_tag((), also=text), "Vary": "Accept"})
    report = await services.costs.report(principal, query, PageRequest(limit=limit, cursor=cursor))
    content = to_bytes(_costs(report, query.groupings))
    return tagged(request, content, list_tag((), also=content.decode()))


@router.get("/v1/costs/focus", response_class=Response, responses=_FOCUS)
@costly
async def export_focus(
    request: Request,
    principal: Admin,
    services: UseServices,
    month: Annotated[
        QueryText | None, Query(description="The month (UTC). The present one by default.", examples=["2026-11"])
    ] = None,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only. All tenants by default.")] = None,
) -> StreamingResponse:
    """Export the usage of a month as CSV in the format FOCUS 1.2, compressed with `Accept-Encoding: gzip`.

    A row is the use of a machine, its network disks or its public address in one clock hour that is over.
    """
    compressed = accepts_gzip(request)
    export = await services.focus.export(principal, month, tenant_id, compressed=compressed)
    headers = {"Content-Disposition": f'attachment; filename="focus-{export.month}.csv"', "Vary": "Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return StreamingResponse(export.content, media_type=CSV, headers=headers)


def _groupings(text: str) -> tuple[CostGrouping, ...]:
    try:
        return parse_groupings(text)
    except ValueError as wrong:
        raise InvalidRequest(errors=[FieldError("#/query/group_by", str(wrong))]) from None


def _costs(report: CostReport, groupings: Sequence[CostGrouping]) -> dict[str, Any]:
    return {
        "starts_at": report.period.since,
        "ends_at": report.period.until,
        "as_of": report.as_of,
        "currency": "USD",
        "items": [_item(row, groupings) for row in report.rows],
        "total": _amounts(report.total),
        "next_cursor": report.next_cursor,
    }


def _item(row: Amounts, groupings: Sequence[CostGrouping]) -> dict[str, Any]:
    group = {grouping.name: row[group_name(place)] or None for place, grouping in enumerate(groupings)}
    return {"start": row["start"], "group": group, **_amounts(row)}


def _amounts(row: Amounts) -> dict[str, Any]:
    zero = Decimal(0)
    parts = {part: row[f"{part}_cost"] or zero for part in ("compute", "disk", "address")}
    cost = cost_of(row)
    listed = cost - parts["compute"] + (row["list_cost"] or zero)
    money = {"cost": cost, **parts, "list_cost": listed, "savings": listed - cost}
    idle = row["idle_gpu_hours"]
    return {
        **{name: format_money(amount) for name, amount in money.items()},
        "gpu_hours": round(float(row["gpu_hours"] or 0), 6),
        "idle_gpu_hours": None if idle is None else round(float(idle), 6),
        "idle_cost": None if row["idle_cost"] is None else format_money(row["idle_cost"]),
        "leases": row["leases"],
    }


def _csv(report: CostReport, groupings: Sequence[CostGrouping]) -> str:
    """Amounts as in JSON; a value that is null there is empty. A formula in a label is text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["start", *(grouping.name for grouping in groupings), *_AMOUNTS])
    for row in report.rows:
        item = _item(row, groupings)
        groups = (inert_text(value or "") for value in item["group"].values())
        writer.writerow([_time(item["start"]), *groups, *(item[name] for name in _AMOUNTS)])
    return text.getvalue()


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
