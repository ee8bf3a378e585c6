"""The catalogue of offerings, and the preview of a lease request."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import Field

from app.api.http.etags import tagged_by_content
from app.api.http.pagination import UsePage
from app.api.http.responses import answer, to_bytes
from app.api.http.routing import Member, UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import DecimalText, Moment, Money, Page, View
from app.api.schemas.explanations import ExplainedExclusion, exclusion_view
from app.api.schemas.hardware import COVERS, GROWS, Gpu, Network
from app.api.schemas.lease_bodies import NewLease, ProviderName, new_lease
from app.api.schemas.lease_filters import QueryText
from app.domain import offerings as domain
from app.domain.money import format_money
from app.domain.offerings import GpuVendor, Interconnect, Market, PriceStatus
from app.domain.placed import type_facts
from app.domain.placement import Exclusion
from app.domain.quotas import JsonAmount, json_amount, json_limit
from app.domain.rates import CostScope
from app.domain.reservations import Reservation
from app.services.budget_refusals import BudgetNeed
from app.services.container import Services
from app.services.cursors import LARGEST_LIMIT
from app.services.lease_refusals import exclusion_detail
from app.services.offerings import AvailabilityStatus, OfferingFilter, OfferingSort, availability, price_per_gpu
from app.services.plan import Candidate, Need, Plan
from app.services.principal import Principal

router = make_router("offerings")
plan_router = make_router("leases")

_PLANNED = 20
_MOST_SKIPPED = 1_000_000


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
    price_per_hour: Annotated[Money | None, Field(description="Price of the whole VM in USD. Null while unknown.")]
    price_as_of: Moment | None
    price_source: str | None
    price_status: PriceStatus
    availability: OfferingAvailability
    reservation: Annotated[OfferedReservation | None, Field(description="In the market `reserved` alone.")]


class Offering(PlannedOffering):
    """An offering of the catalogue."""

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
    rate_per_hour: Annotated[Money, Field(description="USD: the VM, its network disks and its public address.")]
    disk_gib: Annotated[
        int,
        Field(
            description="Billed size of all network disks. It can exceed the requested size: the image or a data disk "
            "of the account needs more, or the provider bills a disk by its next size."
        ),
    ]
    price_for_term: Annotated[Money, Field(description="USD for the whole term at `rate_per_hour`.")]
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

    per_hour: Money
    for_term: Money
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
    quota: PlanQuota
    budgets: Annotated[list[PlanBudget], Field(description="The budgets that must have room for the lease.")]
    cost: PlanCost | None
    as_of: Moment


@dataclass(frozen=True, slots=True)
class Sight:
    """The caller's role and the time of the read. A price reported longer than `stale_after` ago is stale."""

    now: datetime
    operator: bool
    stale_after: timedelta


def sight_of(services: Services, principal: Principal, now: datetime) -> Sight:
    """How the caller sees offerings at `now`."""
    stale_after = timedelta(seconds=services.context.settings.price_stale_seconds)
    return Sight(now, principal.is_operator, stale_after)


async def _filter(  # noqa: PLR0913, PLR0917 - one argument for each query parameter
    gpu_model: QueryText | None = None,
    min_gpus: Annotated[int | None, Query(ge=1, le=1000)] = None,
    min_gpu_memory_gib: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    gpu_vendor: GpuVendor | None = None,
    interconnect: Annotated[Interconnect | None, Query(description="NVSwitch also matches NVLink.")] = None,
    min_vcpus: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    min_memory_gib: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    min_local_disk_gib: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    market: Market | None = None,
    provider: ProviderName | None = None,
    account: QueryText | None = None,
    region: QueryText | None = None,
    instance_type: QueryText | None = None,
    max_price_per_hour: DecimalText | None = None,
) -> OfferingFilter:
    return OfferingFilter(
        gpu_model=gpu_model,
        min_gpus=min_gpus,
        min_gpu_memory_gib=min_gpu_memory_gib,
        gpu_vendor=gpu_vendor,
        interconnect=interconnect,
        min_vcpus=min_vcpus,
        min_memory_gib=min_memory_gib,
        min_local_disk_gib=min_local_disk_gib,
        market=market,
        provider=provider,
        account=account,
        region=region,
        instance_type=instance_type,
        max_price_per_hour=max_price_per_hour,
    )


@router.get("/v1/offerings", response_model=OfferingPage)
@costly
async def list_offerings(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    wanted: Annotated[OfferingFilter, Depends(_filter)],
    sort: Annotated[
        OfferingSort,
        Query(description="By price per VM or per GPU, lowest first; or by measured TFLOP/s for a USD, highest first."),
    ] = OfferingSort.PRICE,
) -> Response:
    """List offerings with their location and price."""
    found = await services.offerings.list(wanted, sort, page, tenant_id=principal.tenant_id)
    sight = sight_of(services, principal, found.as_of)
    items = [offering_json(offering, sight) for offering in found.offerings]
    content = to_bytes({"items": items, "next_cursor": found.next_cursor, "total_count": found.total_count})
    return tagged_by_content(request, content)


@plan_router.post("/v1/leases/plan", response_model=LeasePlan)
@costly
async def plan_lease(
    body: NewLease,
    principal: Member,
    services: UseServices,
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="The most items of each list.")] = _PLANNED,
    skip: Annotated[int, Query(ge=0, le=_MOST_SKIPPED, description="Leave out so many items of each list.")] = 0,
) -> Response:
    """Preview a create: the best candidates in order, and their cost. The call creates nothing."""
    plan = await services.plan.plan(principal, new_lease(body), slice(skip, skip + limit))
    return answer(to_bytes(plan_json(plan, sight_of(services, principal, plan.as_of))))


def plan_json(plan: Plan, sight: Sight) -> dict[str, Any]:
    """The members of LeasePlan."""
    return {
        "admissible": plan.admissible,
        "launches_stopped": plan.launches_stopped,
        "candidates": [_candidate(one, sight) for one in plan.candidates],
        "candidates_count": plan.candidates_count,
        "excluded_count": plan.excluded_count,
        "excluded": [
            {
                "offering": _offering(one.offering, sight),
                "code": one.code,
                "detail": exclusion_detail(one, operator=sight.operator),
            }
            for one in plan.excluded
        ],
        "excluded_by_reason": [
            exclusion_view(group, operator=sight.operator).model_dump() for group in plan.excluded_groups
        ],
        "quota": {"fits": all(need.fits for need in plan.needs), "resources": [_need(need) for need in plan.needs]},
        "budgets": [_budget(one) for one in plan.budgets],
        "cost": _first_cost(plan),
        "as_of": plan.as_of,
    }


def _candidate(one: Candidate, sight: Sight) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "offering": _offering(one.offering, sight),
        "rate_per_hour": format_money(one.rate.total),
        "disk_gib": one.disk_gib,
        "price_for_term": format_money(one.price_for_term),
        "quota_fits": one.quota_fits,
    }


def _first_cost(plan: Plan) -> dict[str, Any] | None:
    first = plan.best
    if first is None:
        return None
    return {
        "per_hour": format_money(first.rate.total),
        "for_term": format_money(first.price_for_term),
        "currency": "USD",
        "covers": CostScope.VM,
    }


def _need(need: Need) -> dict[str, Any]:
    return {
        "resource": need.resource,
        "limit": json_limit(need.resource, need.limit),
        "used": json_amount(need.resource, need.used),
        "asked": json_amount(need.resource, need.asked),
        "fits": need.fits,
    }


def _budget(need: BudgetNeed) -> dict[str, Any]:
    amounts = {name: getattr(need, name) for name in ("amount", "spent", "committed", "asked")}
    shown = {name: format_money(amount) for name, amount in amounts.items()}
    return {"budget_id": need.budget_id, **shown, "fits": need.fits}


def offering_json(offering: domain.Offering, sight: Sight) -> dict[str, Any]:
    """The members of Offering."""
    price = offering.price_per_hour
    return {
        **_offering(offering, sight),
        "price_per_gpu_hour": None if price is None else format_money(price_per_gpu(price, offering.type)),
        "statistics": {
            "launches": offering.launches,
            "refusals": offering.refusals,
            "success_rate": None if offering.success_rate is None else round(offering.success_rate, 3),
            "ready_seconds": offering.ready_seconds,
        },
        "benchmark": _benchmark(offering),
    }


def _benchmark(offering: domain.Offering) -> dict[str, Any] | None:
    measured, per_usd = offering.benchmark, offering.tflops_per_usd
    if measured is None:
        return None
    return {
        "bf16_tflops_p50": round(measured.bf16_tflops_p50, 1),
        "n": measured.n,
        "driver_version": measured.driver_version,
        "tflops_per_usd": None if per_usd is None else round(per_usd, 1),
    }


def _offering(offering: domain.Offering, sight: Sight) -> dict[str, Any]:
    key = offering.key
    known = availability(offering, sight.now, operator=sight.operator)
    return {
        "provider": offering.provider,
        "account": key.account,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "market": key.market,
        **type_facts(offering.type),
        "price_per_hour": _money(offering.price_per_hour),
        "price_as_of": offering.price_as_of,
        "price_source": offering.price_source,
        "price_status": offering.price_status(sight.now, sight.stale_after),
        "availability": {"status": known.status, "until": known.until, "reason": known.reason},
        "reservation": None if offering.reservation is None else _reservation(offering.reservation),
    }


def _reservation(reservation: Reservation) -> dict[str, Any]:
    return {name: getattr(reservation, name) for name in ("name", "slots", "free", "starts_at", "ends_at")}


def _money(value: Decimal | None) -> str | None:
    return None if value is None else format_money(value)
