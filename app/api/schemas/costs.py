"""Response models of what a lease costs."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import COVERS
from app.domain.rates import CostScope


class RateParts(View):
    """The parts of a rate in USD per hour. Null: the price of this part is unknown, and the part is not metered."""

    compute: Annotated[Money, Field(description="The VM with its GPUs and local disks.")]
    disk: Annotated[Money | None, Field(description="All network disks of the VM.")]
    address: Annotated[Money | None, Field(description="The public address of the VM.")]


class Cost(View):
    """The cost of the lease until `as_of`. `rate_per_hour` and `parts` are null while the lease is not billed."""

    accrued: Money
    rate_per_hour: Annotated[Money | None, Field(description="The sum of `parts`.")]
    parts: Annotated[RateParts | None, Field(description="The parts of `rate_per_hour`.")]
    as_of: Moment
    currency: str
    covers: Annotated[CostScope, Field(description=COVERS)]


class Estimate(View):
    """The rate of the lease's newest placement; before that, of the offering that it tried first at its creation.

    `price_for_term` is the price from `created_at` to `expires_at`. Billing starts later, when the VM starts.
    """

    price_per_hour: Money
    price_for_term: Money
    currency: str
    covers: Annotated[CostScope, Field(description=COVERS)]
