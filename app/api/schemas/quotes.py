"""Bodies and views about quotes."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.api.schemas.costs import RateParts
from app.api.schemas.explanations import ExplainedExclusion
from app.api.schemas.offerings import PlanCandidate, PlanQuota


class QuotedPlan(View):
    """The plan at the time of the quote. `candidates`: at most 20 offerings that cost no more than the quoted price."""

    admissible: Annotated[bool, Field(description="The API would have accepted a create.")]
    launches_stopped: Annotated[bool, Field(description="Operators had stopped launches; the lease would wait.")]
    candidates: list[PlanCandidate]
    excluded_by_reason: Annotated[list[ExplainedExclusion], Field(description="The largest group first.")]
    quota: PlanQuota
    as_of: Moment


class Quote(View):
    """The price of a lease that is created with `quote_id` before `valid_until`. It reserves no capacity."""

    id: str
    tenant_id: str
    plan: QuotedPlan
    price_per_hour: Annotated[
        Money,
        Field(
            description="USD with all parts, at the first candidate. A lease from the quote is launched nowhere at a "
            "higher price."
        ),
    ]
    parts: RateParts
    total: Annotated[
        Money,
        Field(description="USD for the whole term at the first candidate: the VM, its network disks and its address."),
    ]
    currency: str
    valid_until: Moment
    created_at: Moment
