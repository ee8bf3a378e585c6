"""Bodies and views about GPU measurements."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.services.gpus.fleet import MOST_LISTED

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
        list[FleetLease],
        Field(
            description=f"Failing GPUs first, then idle, busy and unknown ones; each the newest first. At most {MOST_LISTED}. "
            "The sums count all leases."
        ),
    ]
