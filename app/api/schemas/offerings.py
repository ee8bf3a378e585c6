"""Bodies and views about offerings and plans."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, Page, View
from app.api.schemas.costs import PricePerHour, RateParts
from app.api.schemas.explanations import ExplainedExclusion
from app.api.schemas.hardware import ALL_PARTS, COVERS, GROWS, Gpu, Network
from app.domain.offerings import Market, PriceStatus
from app.domain.placement import Exclusion
from app.domain.quotas import JsonAmount
from app.domain.rates import CostScope
from app.services.offerings.offerings import (
    AvailabilityStatus,
)


class OfferingAvailability(View):
    """Whether launches at an offering are possible now. `until` and `reason` are set during a cool-off."""

    status: AvailabilityStatus
    until: Moment | None
    reason: str | None


class LaunchStatistics(View):
    """Results of recent launches at an offering; older launches lose weight.

    `ready_seconds`: average time from launch to ready.

    `success_rate`: the share of launches that created a VM, from 0 to 1. Null without any launch.
    """

    launches: int
    refusals: int
    success_rate: float | None
    ready_seconds: float | None


class OfferingBenchmark(View):
    """What this instance type was measured to do, with the newest versions of driver, agent and libraries."""

    bf16_tflops_p50: Annotated[float, Field(description="TFLOP/s of one GPU in bf16: the median of the measured GPUs.")]
    n: Annotated[int, Field(description="The number of measured GPUs.")]
    driver_version: Annotated[str | None, Field(description="The driver of the measured VMs. Null: unknown.")]
    tflops_per_usd: Annotated[
        float | None, Field(description="TFLOP/s of all GPUs of the VM for each USD an hour. Null without a price.")
    ]


class OfferedReservation(View):
    """A reservation: capacity that the operators bought ahead. `GET /v1/reservations` shows more.

    `slots` and `free` count VMs; they are null without a fixed number.
    """

    name: str
    slots: int | None
    free: int | None
    starts_at: Moment | None
    ends_at: Moment | None


class PlannedOffering(View):
    """An instance type in a zone of an account, in one market."""

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description="The market of the offering. " + GROWS)]
    gpu: Gpu
    vcpus: int
    memory_gib: float
    local_disk_gib: int
    network: Network
    price_per_hour: Annotated[Money | None, Field(description=f"{ALL_PARTS} Null while unknown.")]
    parts: RateParts | None
    price_as_of: Moment | None
    price_source: str | None
    price_status: PriceStatus
    availability: OfferingAvailability
    reservation: Annotated[OfferedReservation | None, Field(description="In the market `reserved` alone.")]


class Offering(PlannedOffering):
    """An offering of the catalogue. Its price is that of a lease with the default disk and a public address."""

    price_per_gpu_hour: Money | None
    statistics: LaunchStatistics
    benchmark: Annotated[OfferingBenchmark | None, Field(description="Null: not measured.")]


class OfferingPage(Page):
    """A page of the catalogue, sorted by price, unknown prices last."""

    items: list[Offering]


class PlanCandidate(View):
    """An offering that the lease would try.

    `quota_fits` is false if the quota is too small for it; the lease then skips it.
    """

    rank: int
    offering: PlannedOffering
    disk_gib: Annotated[
        int,
        Field(
            description="Billed size of all network disks. It can exceed the requested size: the image or a data disk "
            "of the account needs more, or the provider bills a disk by its next size."
        ),
    ]
    price_for_term: Annotated[Money, Field(description="USD for the whole term at the offering's `price_per_hour`.")]
    quota_fits: bool


class PlanExclusion(View):
    """An offering that the lease would not try, and the first reason."""

    offering: PlannedOffering
    code: Annotated[Exclusion, Field(description="The rule that excludes the offering. " + GROWS)]
    detail: str


class PlanNeed(View):
    """A resource that the lease would reserve. `limit` is null if no limit is set.

    `gpus` requires a limit; the other resources do not.
    """

    resource: str
    limit: JsonAmount | None
    used: JsonAmount
    asked: JsonAmount
    fits: bool


class PlanQuota(View):
    """Whether the quota admits the request. A create reserves the smallest amount that any candidate needs."""

    fits: bool
    resources: list[PlanNeed]


class PlanBudget(View):
    """A budget that counts the lease and refuses what does not fit. A create holds what the term costs at least."""

    budget_id: str
    amount: Annotated[Money, Field(description="USD for one period.")]
    spent: Annotated[Money, Field(description="USD that leases have cost in the period.")]
    committed: Annotated[Money, Field(description="USD that live leases may still cost in the period.")]
    asked: Annotated[Money, Field(description="USD that the lease would hold.")]
    fits: bool


class PlanCost(View):
    """Cost of the first candidate, for an hour and for the whole term."""

    price_per_hour: PricePerHour
    parts: RateParts
    price_for_term: Money
    currency: str
    covers: Annotated[CostScope, Field(description=COVERS)]


class LeasePlan(View):
    """The result that a create would have now. The call changes nothing."""

    admissible: Annotated[bool, Field(description="The API would accept a create now.")]
    launches_stopped: Annotated[bool, Field(description="Operators have stopped launches; the lease would wait.")]
    candidates: list[PlanCandidate]
    candidates_count: Annotated[int, Field(description="All candidates, including those that are not listed.")]
    excluded: list[PlanExclusion]
    excluded_count: Annotated[int, Field(description="All excluded offerings, including those that are not listed.")]
    excluded_by_reason: Annotated[list[ExplainedExclusion], Field(description="The largest group first.")]
    catalogue_error: Annotated[
        str | None,
        Field(description="Why the offerings of some regions cannot be read. Null: gpulease could read all."),
    ]
    quota: PlanQuota
    budgets: Annotated[list[PlanBudget], Field(description="The budgets that must have room for the lease.")]
    cost: PlanCost | None
    as_of: Moment
