"""Bodies and views about usage."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.domain.rates import CostScope
from app.domain.usage import UsageGrouping, UsageStep


class UsageSums(View):
    """What was used and what happened. Cost and GPU hours count from the first sight of a running VM to its end."""

    cost: Annotated[Money, Field(description="USD of the billed time of VMs and volumes, rounded for display.")]
    gpu_hours: Annotated[float, Field(description="GPUs times hours for which they were billed.")]
    volume_gib_hours: Annotated[float, Field(description="GiB of volumes times hours for which they were billed.")]
    leases_created: int
    leases_ready: Annotated[int, Field(description="Leases that became ready for the first time.")]
    leases_failed: Annotated[int, Field(description="Leases that ended in state `failed`.")]
    capacity_failures: Annotated[int, Field(description="Launches that a provider refused for lack of capacity.")]
    interruptions: Annotated[int, Field(description="VMs that their provider interrupted.")]


class UsageGroup(UsageSums):
    """A group over the whole range."""

    group: Annotated[str | None, Field(description="Null with `group_by=none`; `other` sums up the remaining groups.")]
    name: Annotated[str | None, Field(description="The tenant's name, with `group_by=tenant`.")]


class UsageItem(UsageSums):
    """A group in one step. Averages of the current step are those of its part that is over."""

    starts_at: Moment
    group: Annotated[str | None, Field(description="Null with `group_by=none`.")]
    gpus: Annotated[float, Field(description="GPUs in use, on average.")]
    spend_per_hour: Annotated[Money, Field(description="USD per hour, on average.")]
    ready_seconds_p50: Annotated[
        float | None,
        Field(description="Median time from creation to ready, of leases that became ready in the step."),
    ]
    ready_seconds_p95: Annotated[float | None, Field(description="95th percentile of the same.")]


class Usage(View):
    """Use and cost over time. A step in which a group used nothing has no item."""

    starts_at: Annotated[Moment, Field(description="The start of the first step.")]
    ends_at: Annotated[Moment, Field(description="The end of the last step. It may be later than `as_of`.")]
    step: UsageStep
    group_by: UsageGrouping
    as_of: Annotated[Moment, Field(description="The current step is counted until then.")]
    currency: Annotated[str, Field(examples=["USD"])]
    covers: Annotated[str, Field(description="What the cost contains.", examples=[CostScope.VM])]
    groups: Annotated[list[UsageGroup], Field(description="The largest cost first, `other` last.")]
    items: Annotated[list[UsageItem], Field(description="By time, then in the order of `groups`.")]
    next_cursor: Annotated[str | None, Field(description="Always null: there is one page.")]
