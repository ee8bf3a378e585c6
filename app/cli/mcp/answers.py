"""What tools answer: the parts of the API's documents that an agent needs, with the remaining budget in each."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field

from app.cli.errors import Json
from app.cli.money.budgets import scope
from app.cli.render import times
from app.cli.render.output import at
from app.cli.render.states import ends, reason
from app.cli.render.texts import exclusion_text, gpus

_MOST_CANDIDATES = 5


class Budget(BaseModel):
    """A limit of what leases may cost in a period. Amounts are USD."""

    id: str
    scope: Annotated[str, Field(description="Whose leases it counts: tenant, key ID or label KEY:VALUE.")]
    period: Annotated[str, Field(description="day, month or lifetime, in UTC.")]
    amount: str
    spent: Annotated[str, Field(description="What leases have cost in this period.")]
    committed: Annotated[str, Field(description="What live leases will cost in this period, up to their ends.")]
    available: Annotated[str, Field(description="What new leases and extensions may still cost in this period.")]
    when_exceeded: Annotated[
        str, Field(description="refuse: refuses new leases. end: also ends leases. notify: only sends events.")
    ]
    resets_at: Annotated[str | None, Field(description="When the period ends. Null: never.")] = None

    @classmethod
    def of(cls, item: Json) -> Self:
        """From the API's document."""
        return cls.model_validate({**item, "scope": scope(item)})


class Answer(BaseModel):
    """The answer of every tool."""

    remaining_budget: Annotated[
        Budget | None,
        Field(
            description="Of the budgets that count the lease, the one with the least money available. Without a lease, of "
            "those that count a new lease of this key. Null: there is no such budget."
        ),
    ] = None


class Lease(BaseModel):
    """A lease of a VM with GPUs. Times are UTC, amounts USD."""

    id: str
    name: str
    state: Annotated[
        str,
        Field(description="queued, provisioning, booting, active (the VM is ready), releasing, released or failed."),
    ]
    reason: Annotated[str | None, Field(description="Why the lease is in this state.")] = None
    ends_at: Annotated[str, Field(description="When the lease ends by itself: its term, or its spend cap if earlier.")]
    ends_in_seconds: Annotated[int | None, Field(description="Seconds until then. Null: it is ending or has ended.")]
    cost_so_far: str | None = None
    price_per_hour: Annotated[
        str | None, Field(description="USD: the VM, its network disks and its public address. Null: not billed now.")
    ] = None
    max_cost: Annotated[str | None, Field(description="The spend cap. Null: none.")] = None
    budget_available: Annotated[
        str | None,
        Field(description="What the tightest budget that counts this lease has available. Null: no budget counts it."),
    ] = None
    gpus: str | None = None
    provider: str | None = None
    region: str | None = None
    instance_type: str | None = None
    market: str | None = None
    ssh_command: Annotated[str | None, Field(description="How to log in. Null: the VM is not ready.")] = None
    gpu_percent: Annotated[int | None, Field(description="Mean utilization of its GPUs. Null: unknown.")] = None
    gpu_health: Annotated[str | None, Field(description="healthy, degraded or failing. Null: not reported.")] = None
    idle_since: Annotated[str | None, Field(description="Since when no GPU is used. Null: one is, or unknown.")] = None
    labels: dict[str, str] = {}

    @classmethod
    def of(cls, item: Json, budget: Budget | None) -> Self:
        """From the API's document. `budget`: the tightest one that counts the lease."""
        place = item.get("placement") or {}
        end = item.get("ends_at") or item["expires_at"]
        return cls(
            id=item["id"],
            name=item["name"],
            state=item["state"],
            reason=reason(item),
            ends_at=end,
            ends_in_seconds=None if ends(item) else seconds_until(end),
            cost_so_far=at(item, "cost.accrued"),
            price_per_hour=at(item, "cost.price_per_hour"),
            max_cost=item.get("max_cost"),
            budget_available=None if budget is None else budget.available,
            gpus=gpus(place),
            **{name: place.get(name) for name in ("provider", "region", "instance_type", "market")},
            ssh_command=at(item, "connection.ssh_command"),
            gpu_percent=at(item, "utilization.gpu_percent"),
            gpu_health=at(item, "health.status"),
            idle_since=at(item, "idle.since"),
            labels=item.get("labels") or {},
        )


class LeaseAnswer(Answer):
    """One lease."""

    lease: Lease


class LeasesAnswer(Answer):
    """Leases, the newest first."""

    leases: list[Lease]
    more: Annotated[bool, Field(description="There are more leases than these.")]


class Volume(BaseModel):
    """A disk that outlives leases."""

    name: str
    state: str
    size_gib: int
    account: str
    region: str
    zone: str
    lease_id: Annotated[str | None, Field(description="The lease that holds it. Null: it is free.")] = None
    price_per_hour: Annotated[str | None, Field(description="USD for the whole volume.")] = None


class VolumesAnswer(Answer):
    """Volumes that exist, the newest first."""

    volumes: list[Volume]
    more: Annotated[bool, Field(description="There are more volumes than these.")]


class Candidate(BaseModel):
    """An offering that a lease would try."""

    provider: str
    region: str
    instance_type: str
    market: str
    gpus: str | None
    price_per_hour: Annotated[str | None, Field(description="USD: the VM, its network disks and its public address.")]
    price_for_term: Annotated[str | None, Field(description="USD for the whole term, the same parts.")]
    disk_gib: Annotated[int | None, Field(description="Billed size of its network disks, the image's least at least.")]

    @classmethod
    def of(cls, item: Json) -> Self:
        """From a candidate of a plan."""
        offering = item["offering"]
        return cls(
            **{name: offering[name] for name in ("provider", "region", "instance_type", "market")},
            gpus=gpus(offering),
            price_per_hour=offering.get("price_per_hour"),
            disk_gib=item.get("disk_gib"),
            price_for_term=item.get("price_for_term"),
        )


class PlannedBudget(BaseModel):
    """A budget that a lease must fit into. Amounts are USD."""

    budget_id: str
    amount: str
    spent: str
    committed: str
    asked: Annotated[str, Field(description="What the lease would commit.")]
    fits: bool


class PlanAnswer(Answer):
    """What a lease would try, in order. Nothing was created."""

    admissible: Annotated[bool, Field(description="The API would accept the lease now.")]
    would_end_at: Annotated[str, Field(description="The end of a lease that is created now.")]
    candidates: Annotated[list[Candidate], Field(description="The first five offerings that fit.")]
    candidates_count: int
    excluded: Annotated[dict[str, int], Field(description="Why other offerings do not fit, with their numbers.")]
    budgets: Annotated[list[PlannedBudget], Field(description="The budgets that must have room for the lease.")] = []

    @classmethod
    def fields_of(cls, plan: Json, ttl_seconds: int) -> dict[str, Any]:
        """The fields, from the API's plan."""
        candidates = plan.get("candidates") or []
        groups = plan.get("excluded_by_reason") or []
        return {
            "admissible": bool(plan.get("admissible", bool(candidates))),
            "would_end_at": times.rfc3339(times.now() + timedelta(seconds=ttl_seconds)),
            "candidates": [Candidate.of(item) for item in candidates[:_MOST_CANDIDATES]],
            "candidates_count": plan.get("candidates_count", len(candidates)),
            "budgets": [PlannedBudget.model_validate(item) for item in plan.get("budgets") or []],
            "excluded": {exclusion_text(group["code"]): group["count"] for group in groups},
        }


class QuoteAnswer(PlanAnswer):
    """A price that holds for some minutes. Nothing was created."""

    quote_id: Annotated[
        str, Field(description="Give it to create_lease: the VM starts nowhere at a higher price per hour.")
    ]
    price_per_hour: Annotated[str, Field(description="USD: the VM, its network disks and its public address.")]
    total: Annotated[str, Field(description="USD for the whole term.")]
    valid_until: str


class CostLine(BaseModel):
    """The cost of one group in one bucket of time."""

    start: Annotated[str | None, Field(description="Start of the bucket. Null: the total.")] = None
    group: dict[str, str | None] = {}
    cost: Annotated[str, Field(description="USD.")]
    savings: Annotated[str | None, Field(description="USD less than the on-demand list price.")] = None
    gpu_hours: float | None = None
    idle_gpu_hours: Annotated[float | None, Field(description="GPU hours without load. Null: unknown.")] = None
    idle_cost: Annotated[str | None, Field(description="USD of those hours. Null: unknown.")] = None
    leases: int | None = None


class CostsAnswer(Answer):
    """Costs over time."""

    lines: list[CostLine]
    total: CostLine | None
    more: Annotated[bool, Field(description="There are more lines than these. The total counts all.")]


class BudgetsAnswer(Answer):
    """The budgets that this key can see."""

    budgets: list[Budget]


def seconds_until(text: str | None) -> int | None:
    """Seconds until a time of the API, 0 when it has passed."""
    end: datetime | None = times.parse_time(text)
    return None if end is None else max(0, int((end - times.now()).total_seconds()))
