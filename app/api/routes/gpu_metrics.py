"""Metrics of GPUs: series of a lease, the utilization of many, the fleet, and Prometheus text."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from app.api.http.responses import JSON, to_bytes
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Timestamp, View
from app.api.schemas.lease_filters import QueryText
from app.domain.gpu_series import LONGEST_STEP, MOST_POINTS, SHORTEST_STEP
from app.services.gpu_metrics import MOST_HOURS, MOST_LEASES

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

    uuid: str
    gpu_percent: Series
    memory_percent: Series
    temperature_c: Series
    power_w: Series


class LeaseMetrics(View):
    """The use of a lease's GPUs and host over time, as its agent reports it."""

    lease_id: str
    from_: Annotated[Moment, Field(alias="from", description="The start of the first step.")]
    to: Annotated[Moment, Field(description="The end of the last step.")]
    step_seconds: int
    at: Annotated[list[Moment], Field(description="The start of each step.")]
    series: SeriesOfLease
    gpus: Annotated[list[SeriesOfGpu], Field(description="GPUs with samples in the range.")]


class LeaseUtilization(View):
    """The utilization of one lease's GPUs."""

    lease_id: str
    gpu_percent: Series


class Utilizations(View):
    """The utilization of several leases."""

    step_seconds: int
    from_: Annotated[Moment, Field(alias="from", description="The start of the first step.")]
    items: Annotated[list[LeaseUtilization], Field(description="Leases that the caller may see, in the order of `ids`.")]


@router.get("/v1/leases/{lease_id}/metrics", response_model=LeaseMetrics)
async def get_lease_metrics(
    lease_id: str,
    principal: Viewer,
    services: UseServices,
    from_: Annotated[
        Timestamp | None, Query(alias="from", description="An hour before `to` by default. Rounded down to a step.")
    ] = None,
    to: Annotated[Timestamp | None, Query(description="Now by default, and at the latest. Rounded up to a step.")] = None,
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
    return Response(to_bytes(content), media_type=JSON)


@router.get("/v1/metrics/utilization", response_model=Utilizations)
async def get_utilization(
    principal: Viewer,
    services: UseServices,
    ids: Annotated[
        QueryText, Query(description=f"At most {MOST_LEASES} ids of leases, separated by commas.", examples=["lease_1"])
    ],
    hours: Annotated[int, Query(ge=1, le=MOST_HOURS, description="The range until now.")] = 1,
) -> Response:
    """Read the utilization of several leases' GPUs, in at most 60 steps, for small charts in lists."""
    found = await services.gpu_metrics.utilization(principal, [one for one in ids.split(",") if one], hours)
    items = [{"lease_id": lease_id, "gpu_percent": values} for lease_id, values in found.items.items()]
    return Response(
        to_bytes({"step_seconds": found.step, "from": found.since, "items": items}),
        media_type=JSON,
    )
