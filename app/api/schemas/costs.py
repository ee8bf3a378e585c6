"""Response models of what a lease costs."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import ALL_PARTS, COVERS
from app.domain.rates import CostScope

PricePerHour = Annotated[Money, Field(description=ALL_PARTS)]


class RateParts(View):
    """The parts of `price_per_hour`, in USD. Null: the price of this part is unknown, and the part is not metered."""

    compute: Annotated[Money, Field(description="The VM with its GPUs and local disks.")]
    disk: Annotated[Money | None, Field(description="All network disks of the VM.")]
    address: Annotated[Money | None, Field(description="The public address of the VM.")]


class Cost(View):
    """The cost until `as_of`: of a lease, or of all members of a group. Without billing, price and parts are null."""

    accrued: Money
    price_per_hour: PricePerHour | None
    parts: RateParts | None
    as_of: Moment
    currency: str
    covers: Annotated[CostScope, Field(description=COVERS)]


class Estimate(View):
    """The price of the lease's newest placement; before that, of the offering that it tried first at its creation.

    `price_for_term` is the price from `created_at` to `expires_at`. Billing starts later, when the VM starts. The estimate
    of a group is the sum over its live members.
    """

    price_per_hour: PricePerHour
    price_for_term: Money
    currency: str
    covers: Annotated[CostScope, Field(description=COVERS)]


class CostAmounts(View):
    """What was used and what it cost."""

    cost: Annotated[Money, Field(description="USD: `compute`, `disk` and `address`.")]
    compute: Annotated[Money, Field(description="USD for the machines.")]
    disk: Annotated[Money, Field(description="USD for network disks.")]
    address: Annotated[Money, Field(description="USD for public addresses.")]
    list_cost: Annotated[Money, Field(description="USD that the same would have cost on demand.")]
    savings: Annotated[Money, Field(description="`list_cost` less `cost`.")]
    gpu_hours: Annotated[float, Field(description="GPUs times hours for which they were billed.")]
    idle_gpu_hours: Annotated[float | None, Field(description="GPU hours without load. Null: unknown.")]
    idle_cost: Annotated[
        Money | None, Field(description="USD: the part of `cost` for `idle_gpu_hours`. Null: unknown.")
    ]
    leases: Annotated[int, Field(description="Leases with use.")]


class CostItem(CostAmounts):
    """A group in one bucket."""

    start: Annotated[Moment, Field(description="The start of the bucket.")]
    group: Annotated[
        dict[str, str | None],
        Field(description="The value of each grouping. Null: the lease has no such label."),
    ]


class Costs(View):
    """Costs over time. A bucket in which a group used nothing has no item."""

    starts_at: Annotated[Moment, Field(description="The start of the first bucket.")]
    ends_at: Annotated[Moment, Field(description="The end of the last bucket. It may be later than `as_of`.")]
    as_of: Annotated[Moment, Field(description="The current hour is counted until then.")]
    currency: Annotated[str, Field(examples=["USD"])]
    items: Annotated[list[CostItem], Field(description="By start, then by group.")]
    total: Annotated[CostAmounts, Field(description="The sums of the whole range, whatever the page.")]
    next_cursor: Annotated[str | None, Field(description="`cursor` of the next page. Null: this is the last page.")]
