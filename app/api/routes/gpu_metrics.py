"""Metrics of GPUs: series of a lease, the utilization of many, the fleet, and Prometheus text."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Text, Timestamp, to_bytes
from app.api.schemas.gpu_metrics import FleetMetrics, LeaseMetrics, Utilizations
from app.domain.gpus.series import LONGEST_STEP, MOST_POINTS, SHORTEST_STEP
from app.domain.money import format_money
from app.observability.gpu_exposition import exposition
from app.services.gpus.metrics import MOST_HOURS, MOST_LEASES
from app.services.preconditions import list_tag

router = make_router("metrics")


_LONGEST_IDS = MOST_LEASES * 34
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_PROMETHEUS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text format.",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": 'DCGM_FI_DEV_GPU_UTIL{gpu="0",…} 87\n'}},
    }
}


@router.get("/v1/leases/{lease_id}/metrics", response_model=LeaseMetrics)
@costly
async def get_lease_metrics(
    request: Request,
    lease_id: str,
    principal: Viewer,
    services: UseServices,
    from_: Annotated[
        Timestamp | None, Query(alias="from", description="An hour before `to` by default. Rounded down to a step.")
    ] = None,
    to: Annotated[
        Timestamp | None, Query(description="Now by default, and at the latest. Rounded up to a step.")
    ] = None,
    step: Annotated[
        int | None,
        Query(
            ge=SHORTEST_STEP,
            le=LONGEST_STEP,
            description=f"Seconds: 60, 120, 180, 240 or a multiple of 300; of 3600 for ranges that begin before samples "
            f"were deleted. At most {MOST_POINTS} steps. By default the shortest of a few that fit.",
        ),
    ] = None,
) -> Response:
    """Read series of a lease: utilization, memory, power, temperature and clocks of its GPUs, and the load of its host."""
    series = await services.gpu_metrics.series(principal, lease_id, from_, to, step)
    period = series.period
    content = {
        "lease_id": series.lease_id,
        "from": period.since,
        "to": period.until,
        "step_seconds": period.step,
        "at": period.starts(),
        "series": series.lease,
        "gpus": series.gpus,
    }
    return _tagged(request, content)


@router.get("/v1/metrics/utilization", response_model=Utilizations)
@costly
async def get_utilization(
    request: Request,
    principal: Viewer,
    services: UseServices,
    ids: Annotated[
        Text,
        Query(
            max_length=_LONGEST_IDS,
            description=f"At most {MOST_LEASES} ids of leases, separated by commas.",
            examples=["lease_01jz0000000000000000000001"],
        ),
    ],
    hours: Annotated[int, Query(ge=1, le=MOST_HOURS, description="The range until now.")] = 1,
) -> Response:
    """Read the utilization of several leases' GPUs, in at most 60 steps, for small charts in lists."""
    utilization = await services.gpu_metrics.utilization(
        principal, [lease_id for lease_id in ids.split(",") if lease_id], hours
    )
    items = [{"lease_id": lease_id, "gpu_percent": values} for lease_id, values in utilization.items.items()]
    return _tagged(request, {"step_seconds": utilization.step, "from": utilization.since, "items": items})


@router.get("/v1/metrics/fleet", response_model=FleetMetrics)
@costly
async def get_fleet_metrics(request: Request, principal: Viewer, services: UseServices) -> Response:
    """Read how many GPUs are paid for and how many are in use now, GPU by GPU. Operators see all tenants."""
    fleet = await services.gpu_fleet.fleet(principal)
    content = {**asdict(fleet), "idle_cost_per_hour": format_money(fleet.idle_cost_per_hour)}
    return _tagged(request, content)


@router.get("/v1/metrics/leases", response_class=Response, responses=_PROMETHEUS)
@costly
async def get_lease_metrics_text(principal: Viewer, services: UseServices) -> Response:
    """Return the newest samples of the caller's active leases for Prometheus, with the metric names of DCGM-exporter.

    Prometheus sends the API key as bearer token. A lease without a recent sample is left out. Operators see all tenants.
    """
    rows = await services.gpu_fleet.reporting(principal)
    text = exposition(rows)
    return Response(text, headers={"Content-Type": _EXPOSITION, "ETag": list_tag((), also=text)})


def _tagged(request: Request, content: dict[str, Any]) -> Response:
    text = to_bytes(content)
    return tagged(request, text, list_tag((), also=text.decode()))
