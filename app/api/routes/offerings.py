"""The catalogue of offerings, and the preview of a lease request."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from app.api.http.etags import tagged_by_content
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.base import DecimalText, to_bytes
from app.api.schemas.explanations import exclusion_view
from app.api.schemas.lease_bodies import NewLease, ProviderName, new_lease
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.offerings import LeasePlan, OfferingPage
from app.domain import offerings as domain
from app.domain.money import format_money
from app.domain.offerings import GpuVendor, Interconnect, Market
from app.domain.placed import type_facts
from app.domain.quotas import json_amount, json_limit
from app.domain.rates import CostScope, price_at, rate_at
from app.domain.reservations import Reservation
from app.domain.vm_parts import DEFAULT_PARTS, PartsRequest
from app.services.container import Services
from app.services.cursors import LARGEST_LIMIT
from app.services.leases.refusals import exclusion_detail
from app.services.money.budget_refusals import BudgetNeed
from app.services.offerings.offerings import (
    OfferingFilter,
    OfferingSort,
    availability,
    price_per_gpu,
    tflops_per_usd,
)
from app.services.offerings.plan import Candidate, Need, Plan
from app.services.principal import Principal

router = make_router("offerings")
plan_router = make_router("leases")

PLANNED = 20
_NO_RATE = {"price_per_hour": None, "parts": None}
_MOST_SKIPPED = 1_000_000
UsePlanLimit = Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="The most items of each list.")]
UsePlanSkip = Annotated[int, Query(ge=0, le=_MOST_SKIPPED, description="Leave out so many items of each list.")]


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """The caller's role and the time of the read. A price reported longer than `stale_after` ago is stale."""

    now: datetime
    operator: bool
    stale_after: timedelta


def sight_of(services: Services, principal: Principal, now: datetime) -> ReaderContext:
    """How the caller sees offerings at `now`."""
    stale_after = timedelta(seconds=services.context.settings.price_stale_seconds)
    return ReaderContext(now, principal.is_operator, stale_after)


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
    criteria: Annotated[OfferingFilter, Depends(_filter)],
    sort: Annotated[
        OfferingSort,
        Query(description="By price per VM or per GPU, lowest first; or by measured TFLOP/s for a USD, highest first."),
    ] = OfferingSort.PRICE,
) -> Response:
    """List offerings with their location and price."""
    matches = await services.offerings.list(criteria, sort, page, tenant_id=principal.tenant_id)
    sight = sight_of(services, principal, matches.as_of)
    items = [offering_json(offering, sight) for offering in matches.offerings]
    content = to_bytes({"items": items, "next_cursor": matches.next_cursor, "total_count": matches.total_count})
    return tagged_by_content(request, content)


@plan_router.post("/v1/leases/plan", response_model=LeasePlan)
@costly
async def plan_lease(
    body: NewLease,
    principal: Member,
    services: UseServices,
    limit: UsePlanLimit = PLANNED,
    skip: UsePlanSkip = 0,
) -> Response:
    """Preview a create: the best candidates in order, and their cost. The call creates nothing."""
    plan = await services.plan.plan(principal, new_lease(body), slice(skip, skip + limit))
    return answer(to_bytes(plan_json(plan, sight_of(services, principal, plan.as_of))))


def plan_json(plan: Plan, sight: ReaderContext) -> dict[str, Any]:
    """The members of LeasePlan."""
    parts = plan.parts
    return {
        "admissible": plan.admissible,
        "launches_stopped": plan.launches_stopped,
        "candidates": [_candidate(candidate, sight, parts) for candidate in plan.candidates],
        "candidates_count": plan.candidates_count,
        "excluded_count": plan.excluded_count,
        "excluded": [
            {
                "offering": _offering(exclusion.offering, sight, parts),
                "code": exclusion.code,
                "detail": exclusion_detail(exclusion, operator=sight.operator),
            }
            for exclusion in plan.excluded
        ],
        "excluded_by_reason": [
            exclusion_view(group, parts, operator=sight.operator).model_dump() for group in plan.excluded_groups
        ],
        "catalogue_error": plan.catalogue_error,
        "quota": {"fits": all(need.fits for need in plan.needs), "resources": [_need(need) for need in plan.needs]},
        "budgets": [_budget(budget) for budget in plan.budgets],
        "cost": _first_cost(plan, plan.members),
        "as_of": plan.as_of,
    }


def _candidate(candidate: Candidate, sight: ReaderContext, parts: PartsRequest) -> dict[str, Any]:
    return {
        "rank": candidate.rank,
        "offering": _offering(candidate.offering, sight, parts),
        "disk_gib": candidate.disk_gib,
        "price_for_term": format_money(candidate.price_for_term),
        "quota_fits": candidate.quota_fits,
    }


def group_plan_json(plan: Plan, sight: ReaderContext) -> dict[str, Any]:
    """The members of GroupPlan."""
    return {**plan_json(plan, sight), "size": plan.members, "member_cost": _first_cost(plan, 1)}


def _first_cost(plan: Plan, members: int) -> dict[str, Any] | None:
    """Of so many VMs at the first candidate."""
    first = plan.best
    if first is None:
        return None
    return {
        **first.rate.times(members).as_json(),
        "price_for_term": format_money(first.price_for_term * members),
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
    formatted = {name: format_money(amount) for name, amount in amounts.items()}
    return {"budget_id": need.budget_id, **formatted, "fits": need.fits}


def offering_json(
    offering: domain.Offering, sight: ReaderContext, parts: PartsRequest = DEFAULT_PARTS
) -> dict[str, Any]:
    """The members of Offering, with the price of a VM with these parts."""
    price = price_at(offering, parts)
    return {
        **_offering(offering, sight, parts),
        "price_per_gpu_hour": None if price is None else format_money(price_per_gpu(price, offering.type)),
        "statistics": {
            "launches": offering.launches,
            "refusals": offering.refusals,
            "success_rate": None if offering.success_rate is None else round(offering.success_rate, 3),
            "ready_seconds": offering.ready_seconds,
        },
        "benchmark": _benchmark(offering, price),
    }


def _benchmark(offering: domain.Offering, price: Decimal | None) -> dict[str, Any] | None:
    measured, per_usd = offering.benchmark, tflops_per_usd(offering, price)
    if measured is None:
        return None
    return {
        "bf16_tflops_p50": round(measured.bf16_tflops_p50, 1),
        "n": measured.n,
        "driver_version": measured.driver_version,
        "tflops_per_usd": None if per_usd is None else round(per_usd, 1),
    }


def _offering(offering: domain.Offering, sight: ReaderContext, parts: PartsRequest) -> dict[str, Any]:
    key = offering.key
    rate = None if offering.price_per_hour is None else rate_at(offering, parts)
    known = availability(offering, sight.now, operator=sight.operator)
    return {
        "provider": offering.provider,
        "account": key.account,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "market": key.market,
        **type_facts(offering.type),
        **(_NO_RATE if rate is None else rate.as_json()),
        "price_as_of": offering.price_as_of,
        "price_source": offering.price_source,
        "price_status": offering.price_status(sight.now, sight.stale_after),
        "availability": {"status": known.status, "until": known.until, "reason": known.reason},
        "reservation": None if offering.reservation is None else _reservation(offering.reservation),
    }


def _reservation(reservation: Reservation) -> dict[str, Any]:
    return {name: getattr(reservation, name) for name in ("name", "slots", "free", "starts_at", "ends_at")}
