"""Bodies and views about reservations."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.api.schemas.costs import RateParts
from app.api.schemas.hardware import Gpu
from app.services.offerings.offerings import AvailabilityStatus


class Reservation(View):
    """Capacity at a provider that the operators bought ahead. Leases use it in the market `reserved`."""

    account: str
    name: str
    provider: str
    kind: Annotated[str, Field(description="The kind of reservation at its provider, as in the account's settings.")]
    region: str
    zone: str
    instance_type: str
    gpu: Gpu
    price_per_hour: Annotated[
        Money, Field(description="What a lease with the default disk and a public address is billed, in USD.")
    ]
    parts: RateParts
    slots: Annotated[int | None, Field(description="VMs at a time. Null: no fixed number.")]
    free: Annotated[int | None, Field(description="VMs that can start now. Null: no fixed number.")]
    starts_at: Annotated[Moment | None, Field(description="No VM starts before. Null: no limit.")]
    ends_at: Annotated[Moment | None, Field(description="No VM runs after. Null: no limit.")]
    latest_expires_at: Annotated[
        Moment | None, Field(description="The latest end of a lease that starts now. Null: no limit.")
    ]
    status: AvailabilityStatus
    reason: str | None
    tenants: Annotated[
        list[str] | None, Field(description="Tenants that may use it; empty: all. Null for all roles except operators.")
    ]
    observed_at: Moment | None


class ReservationPage(View):
    """All reservations that the caller may use, by account and name."""

    items: list[Reservation]
    next_cursor: str | None
