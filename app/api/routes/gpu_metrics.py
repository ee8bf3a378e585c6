"""Metrics of GPUs: series of a lease, the utilization of many, the fleet, and Prometheus text."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.responses import to_bytes
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Money, Text, Timestamp, View
from app.domain.gpu_series import LONGEST_STEP, MOST_POINTS, SHORTEST_STEP
from app.domain.money import format_money
from app.observability.gpu_exposition import exposition
from app.services.gpu_fleet import MOST_LISTED
from app.services.gpu_metrics import MOST_HOURS, MOST_LEASES
from app.services.preconditions import list_tag

router = make_router("metrics")

Series = Annotated[list[int | None], Field(description="A value for each step. Null: no sample.")]


class SeriesOfLease(View):
    """Series of a lease. Values are means of a step, in whole numbers. Power is the sum of the GPUs."""

    gpu_percent: Series
    memory_percent: Series
    power_w: Series
    temperature_c: Series
    sm_clock_mhz: Series
    cpu_percent: Series
    host_memory_percent: Series
    disk_percent: Series


class SeriesOfGpu(View):
    """Series of one GPU."""

    uuid: Annotated[str, Field(description="The GPU's UUID.")]
    gpu_percent: Series
    memory_percent: Series
    temperature_c: Series
    power_w: Series


class LeaseMetrics(View):
    """The use of a lease's GPUs and host over time, as its agent reports it."""

    lease_id: str
    from_: Annotated[Moment, Field(alias="from", description="The start of the first step.")]
    to: Annotated[Moment, Field(description="The end of the last step.")]
    step_seconds: Annotated[int, Field(description="The length of a step.")]
    at: Annotated[list[Moment], Field(description="The start of each step.")]
    series: Annotated[SeriesOfLease, Field(description="Series of all its GPUs together, and of its host.")]
    gpus: Annotated[list[SeriesOfGpu], Field(description="GPUs with samples in the range.")]


class LeaseUtilization(View):
    """The utilization of one lease's GPUs."""

    lease_id: str
    gpu_percent: Series


class Utilizations(View):
    """The utilization of several leases."""

    step_seconds: Annotated[int, Field(description="The length of a step.")]
    from_: Annotated[Moment, Field(alias="from", description="The start of the first step.")]
    items: Annotated[
        list[LeaseUtilization], Field(description="Leases that the caller may see, in the order of `ids`.")
    ]


class FleetLease(View):
    """The GPUs of a lease that is billed now."""

    lease_id: str
    name: str
    gpu_model: str | None
    gpus: Annotated[list[int | None], Field(description="The utilization of each GPU in percent. Null: unknown.")]
    state: str
    health: Annotated[str | None, Field(description="The status of its health. Null: unknown.")]


class FleetMetrics(View):
    """GPUs that are paid for now. A GPU without a sample of the last two minutes counts as unknown, not as idle."""

    gpus_paid: int
    gpus_in_use: Annotated[int, Field(description="GPUs with a utilization of more than 5 %.")]
    gpus_idle: Annotated[int, Field(description="GPUs with a utilization of 5 % or less.")]
    gpus_unknown: int
    idle_cost_per_hour: Annotated[
        Money, Field(description="USD: the share of the idle GPUs in the rates of their leases.")
    ]
    leases: Annotated[
        list[FleetLease], Field(description=f"The newest first, at most {MOST_LISTED}. The sums count all leases.")
    ]


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
    found = await services.gpu_metrics.series(principal, lease_id, from_, to, step)
    period = found.period
    content = {
        "lease_id": found.lease_id,
        "from": period.since,
        "to": period.until,
        "step_seconds": period.step,
        "at": period.starts(),
        "series": found.lease,
        "gpus": found.gpus,
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
    found = await services.gpu_metrics.utilization(principal, [one for one in ids.split(",") if one], hours)
    items = [{"lease_id": lease_id, "gpu_percent": values} for lease_id, values in found.items.items()]
    return _tagged(request, {"step_seconds": found.step, "from": found.since, "items": items})


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
